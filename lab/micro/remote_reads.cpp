// Reads of 4 KiB by a device thread that were read before: through the page cache of the device,
// and by placement `host`, which asks the storage each time. In a file that stays open, and in one
// that is closed and opened anew before each block of reads, where the cache has to ask whether its
// pages are still right.
//
//   bench_remote_reads PATH     a path or a URI; at least 16 MiB
#include <cstdlib>
#include <iostream>

#include <fcntl.h>

#include <ferry/ferry.hpp>

#include "micro/pairs.hpp"

namespace {

using namespace ferry;
using namespace ferry::benchmarks;

constexpr int pair_count = 24;
constexpr long file_bytes = 16L << 20;
constexpr long read_bytes = 4096;
constexpr long cached_calls = 20'000;
constexpr long uncached_calls = 1000;
constexpr long reopened_calls = file_bytes / read_bytes;  // by both, as the open counts

// Scattered, so that nothing is read ahead.
long place(long i) {
  return i * 1'103'515'245 % (file_bytes / read_bytes) * read_bytes;
}

double reads_ns(DeviceThread& self, int file, char* memory, long calls) {
  return nanoseconds_each(calls, [&](long i) {
    if (self.files.pread(file, memory, read_bytes, place(i)) == read_bytes) return;
    std::cerr << "bench_remote_reads: a read failed\n";
    std::exit(1);
  });
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) {
    std::cerr << "usage: bench_remote_reads PATH\n";
    return 2;
  }
  RuntimeOptions options;
  options.device_threads = 1;
  options.arena_bytes = 128 << 20;
  options.cache_bytes = 64 << 20;
  options.page_bytes = 4096;
  Runtime runtime(options);
  const Buffer memory = runtime.allocate(read_bytes);
  runtime.run([&](DeviceThread& self) {
    char* target = memory.as<char>();
    const auto open = [&] {
      const int file = self.files.open(arguments[1], O_RDONLY);
      if (file > 0) return file;
      std::cerr << "bench_remote_reads: cannot open " << arguments[1] << '\n';
      std::exit(1);
    };
    const auto by = [&](int file, device::Placement placement, long calls) {
      self.files.use(placement);
      return reads_ns(self, file, target, calls);
    };
    const auto opened_by = [&](device::Placement placement) {
      const auto begin = Clock::now();
      const int file = open();
      by(file, placement, reopened_calls);
      self.files.close(file);
      const std::chrono::duration<double, std::nano> elapsed = Clock::now() - begin;
      return elapsed.count() / static_cast<double>(reopened_calls);
    };
    const int file = open();
    by(file, device::Placement::compute, reopened_calls);  // fills the cache
    measure_pairs(
        "re-read of 4 KiB", "ns per call", pair_count,
        [&] { return by(file, device::Placement::compute, cached_calls); },
        [&] { return by(file, device::Placement::host, uncached_calls); });
    self.files.close(file);
    measure_pairs(
        "re-read of 4 KiB after another open", "ns per call", pair_count,
        [&] { return opened_by(device::Placement::compute); },
        [&] { return opened_by(device::Placement::host); });
  });
  return 0;
}
