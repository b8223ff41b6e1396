// A program that makes a runtime, runs the device program on it and destroys it, while a call that
// the library makes fails.
#pragma once

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <functional>
#include <new>
#include <ostream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <ferry/runtime.hpp>

#include "faults/device_program.hpp"
#include "faults/nth_point.hpp"

namespace ferry::test {

struct RuntimeSetup {
  const char* name;
  device::Placement placement = device::Placement::host;
  std::uint64_t cache_bytes = 0;
  unsigned service_threads = 0;
  unsigned reader_groups = 0;
  StorageEngine engine = StorageEngine::automatic;
};

inline void PrintTo(const RuntimeSetup& setup, std::ostream* out) {
  *out << setup.name;
}
inline std::string name_of_setup(const testing::TestParamInfo<RuntimeSetup>& test) {
  return test.param.name;
}

inline std::vector<RuntimeSetup> runtime_setups() {
  constexpr std::uint64_t cache_bytes = 24 * 4096;
  return {{"Host"},
          {"Compute", device::Placement::compute, cache_bytes},
          {"Service", device::Placement::service, cache_bytes, 2},
          {"SharedThreads", device::Placement::compute, cache_bytes, 0, 1, StorageEngine::threads}};
}

// `is_error(error)`: the fault's own error, which the runtime throws. Its calls may also return
// -EIO, as a server that cannot go on dies.
inline void run_runtime(const RuntimeSetup& setup, const std::string& path,
                        const ByteSources& sources, const NthPoint& point,
                        const std::function<bool(int error)>& is_error) {
  RuntimeOptions options;
  options.arena_bytes = 1 << 20;
  options.device_threads = 2;
  options.server_threads = 2;
  options.service_threads = setup.service_threads;
  options.cache_bytes = setup.cache_bytes;
  options.page_bytes = 4096;
  options.reader_groups = setup.reader_groups;
  options.placement = setup.placement;
  options.engine = setup.engine;
  options.files_max = 16;
  const auto is_expected = [&](int error) { return is_error(error) || error == EIO; };
  const FaultInForce fault{point, is_expected, true, true, [] { return false; }};
  const PointsHere counts(true);
  try {
    Runtime runtime(options);
    const Buffer buffer = runtime.allocate(8192);
    runtime.run([&](DeviceThread& self) {
      const PointsHere not_here(false);
      if (self.index > 0) return;
      DeviceProgram(self.files, path, buffer.as<unsigned char>(), fault, sources,
                    setup.cache_bytes > 0)
          .run();
    });
    EXPECT_FALSE(runtime.info().storage_engine.empty());
    const ShutdownReport report = runtime.shutdown(std::chrono::seconds(10));
    EXPECT_TRUE(report.finished || point.struck());
  } catch (const Error& error) {
    EXPECT_TRUE(point.struck()) << "without a fault: " << error.what();
    EXPECT_TRUE(is_error(error.code().value())) << error.what();
  } catch (const std::bad_alloc&) {
    EXPECT_TRUE(point.struck() && is_error(ENOMEM)) << "no memory";
  }
}

}  // namespace ferry::test
