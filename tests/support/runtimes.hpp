// Runtimes of several shapes, and programs for one of their threads.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <ferry/ferry.hpp>

#include "base/cpus.hpp"
#include "support/within.hpp"

namespace ferry::test {

struct Shape {
  const char* name;
  StorageEngine engine = StorageEngine::automatic;
  unsigned device_threads = 0;
  unsigned server_threads = 0;
  unsigned rings = 0;
  bool one_cpu = false;
  unsigned cache_pages = 0;  // of 4 KiB
  unsigned service_threads = 0;
  device::Placement placement = device::Placement::host;
};

inline void PrintTo(const Shape& shape, std::ostream* out) {
  *out << shape.name;
}

inline std::vector<Shape> shapes() {
  return {{"uring", StorageEngine::io_uring, 2, 1},
          {"threads", StorageEngine::threads, 2, 1},
          {"many", StorageEngine::automatic, 4, 2, 3},
          {"one_cpu", StorageEngine::automatic, 2, 1, 0, true},
          {"beside_cache", StorageEngine::automatic, 2, 1, 0, false, 24}};
}

inline RuntimeOptions options_of(const Shape& shape) {
  RuntimeOptions options;
  options.engine = shape.engine;
  options.device_threads = shape.device_threads;
  options.server_threads = shape.server_threads;
  options.rings = shape.rings;
  options.arena_bytes = 16 << 20;
  options.files_max = 64;
  options.cache_bytes = std::uint64_t{4096} * shape.cache_pages;
  options.page_bytes = 4096;
  options.service_threads = shape.service_threads;
  options.placement = shape.placement;
  // Low enough that `automatic` takes all its paths.
  options.crossovers = device::Crossovers{20'000, 30'000, 40'000, 3000, 3000};
  if (shape.one_cpu) {
    options.device_cpus = std::to_string(allowed_cpus().front());
    options.server_cpus = options.device_cpus;
  }
  return options;
}

// Tests that run on a runtime of each shape.
class OnRuntime : public testing::TestWithParam<Shape> {
 protected:
  void SetUp() override { make(options_of(GetParam())); }
  void make(const RuntimeOptions& options) {
    runtime.reset();
    try {
      runtime = std::make_unique<Runtime>(options);
    } catch (const Error& error) {
      if (options.engine != StorageEngine::io_uring || error.code().value() == EINVAL) throw;
      GTEST_SKIP() << error.what();
    }
  }
  void TearDown() override {
    within_patience("the end of the runtime", [this] { runtime.reset(); });
  }
  // Only on the first device thread.
  void on_device(const std::function<void(DeviceThread&)>& program) {
    within_patience("a device program", [&] {
      runtime->run([&](DeviceThread& self) {
        if (self.index == 0) program(self);
      });
    });
  }
  void on_all(const std::function<void(DeviceThread&)>& program) {
    within_patience("a device program", [&] { runtime->run(program); });
  }

  std::unique_ptr<Runtime> runtime;
};

inline std::string shape_name(const testing::TestParamInfo<Shape>& info) {
  return info.param.name;
}

}  // namespace ferry::test
