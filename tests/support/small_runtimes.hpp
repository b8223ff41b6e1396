// Options for the smallest runtimes that tests of file calls allow.
#pragma once

#include <cstdint>

#include <ferry/gpu.hpp>

namespace ferry::test {

// As much as a test's groups need.
inline GpuOptions small_gpu() {
  GpuOptions options;
  options.groups = 8;
  options.staging_bytes = 8192;
  return options;
}

// A runtime, of threads or of a GPU, whose cache is smaller than the data of this many groups.
inline RuntimeOptions small_runtime(std::uint32_t groups, std::uint64_t arena_bytes) {
  RuntimeOptions options;
  options.arena_bytes = arena_bytes;
  options.device_threads = groups;
  options.server_threads = 1;
  options.cache_bytes = 24 * 4096;
  options.page_bytes = 4096;
  options.files_max = 16;
  return options;
}

}  // namespace ferry::test
