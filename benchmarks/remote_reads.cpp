// Reads of 4 KiB by a device thread that were read before: through the page cache of the device,
// and by placement `host`, which asks the storage each time.
//
//   bench_remote_reads PATH     a path or a URI; at least 16 MiB
#include <cstdlib>
#include <iostream>

#include <fcntl.h>

#include <ferry/ferry.hpp>

#include "benchmarks/pairs.hpp"

namespace {

using namespace ferry;
using namespace ferry::benchmarks;

constexpr int pair_count = 24;
constexpr long file_bytes = 16L << 20;
constexpr long read_bytes = 4096;
constexpr long cached_calls = 20'000;
constexpr long uncached_calls = 1000;

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
    const int file = self.files.open(arguments[1], O_RDONLY);
    if (file < 0) {
      std::cerr << "bench_remote_reads: cannot open " << arguments[1] << '\n';
      std::exit(1);
    }
    char* target = memory.as<char>();
    const auto by = [&](device::Placement placement, long calls) {
      self.files.use(placement);
      return reads_ns(self, file, target, calls);
    };
    by(device::Placement::compute, file_bytes / read_bytes);  // fills the cache
    measure_pairs(
        "re-read of 4 KiB", "ns per call", pair_count,
        [&] { return by(device::Placement::compute, cached_calls); },
        [&] { return by(device::Placement::host, uncached_calls); });
    self.files.close(file);
  });
  return 0;
}
