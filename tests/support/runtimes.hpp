// Runtimes of several shapes, and programs for one of their threads.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>

#include <ferry/ferry.hpp>

#include "base/cpus.hpp"
#include "support/files.hpp"
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

// One device thread's runtime with a page cache.
inline RuntimeOptions cached_options(unsigned pages,
                                     device::Placement placement = device::Placement::host) {
  RuntimeOptions options;
  options.arena_bytes = 4 << 20;
  options.device_threads = 1;
  options.files_max = 16;
  options.cache_bytes = std::uint64_t{4096} * pages;
  options.page_bytes = 4096;
  options.placement = placement;
  return options;
}

// A fixture's runtime, and its programs.
class WithRuntime {
 protected:
  using Files = device::FileCalls<device::ThreadGroup>;

  void on_all(const std::function<void(DeviceThread&)>& program) const {
    within_patience("a device program", [&] { runtime->run(program); });
  }
  // Only on the first device thread.
  void on_device(const std::function<void(Files&)>& program) const {
    on_all([&](DeviceThread& self) {
      if (self.index == 0) program(self.files);
    });
  }
  // The same with a file that is open meanwhile.
  void on_file(const std::string& path, int flags,
               const std::function<void(Files&, int)>& program) const {
    on_device([&](Files& files) {
      const int file = files.open(path.c_str(), flags, 0644);
      ASSERT_GT(file, 0) << path;
      program(files, file);
      EXPECT_EQ(files.close(file), 0) << path;
    });
  }
  void end_runtime() {
    within_patience("the end of the runtime", [this] { runtime.reset(); });
  }

  std::unique_ptr<Runtime> runtime;
};

// Tests that run on a runtime of each shape.
class OnRuntime : public testing::TestWithParam<Shape>, protected WithRuntime {
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
  void TearDown() override { end_runtime(); }
};

// And tests of a file through a page cache.
class OnCachedRuntime : public testing::Test, protected WithRuntime {
 protected:
  void TearDown() override { end_runtime(); }

  // Writes, and leaves the file open.
  void leave_dirty(const std::string& data) const {
    on_device([&](Files& files) {
      const int file = files.open(path.c_str(), O_RDWR | O_CREAT, 0644);
      ASSERT_EQ(files.pwrite(file, data.data(), data.size(), 0),
                static_cast<std::int64_t>(data.size()));
    });
  }

  const ScratchDirectory directory;
  const std::string path = directory / "f";
};

inline void expect_good_end(const ShutdownReport& report) {
  EXPECT_TRUE(report.finished);
  EXPECT_TRUE(report.errors.empty()) << report.errors.front();
}

inline std::string shape_name(const testing::TestParamInfo<Shape>& info) {
  return info.param.name;
}

}  // namespace ferry::test
