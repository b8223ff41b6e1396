// Repeated reads of 4 KiB by a device thread: through the device's page cache, and by placement
// `host`, which always asks the storage. In a file that stays open, and in one reopened before each
// block of reads, where the cache must revalidate its pages.
#include <fcntl.h>

#include <ferry/ferry.hpp>

#include "micro/pairs.hpp"
#include "micro/subcommand.hpp"

namespace {

using namespace ferry;
using namespace ferry::benchmarks;

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
    check(self.files.pread(file, memory, read_bytes, place(i)), read_bytes);
  });
}

void remote_reads(const BenchmarkOptions& options) {
  RuntimeOptions runtime_options;
  runtime_options.device_threads = 1;
  runtime_options.arena_bytes = 128 << 20;
  runtime_options.cache_bytes = 64 << 20;
  runtime_options.page_bytes = 4096;
  Runtime runtime(runtime_options);
  const Buffer memory = runtime.allocate(read_bytes);
  runtime.run([&](DeviceThread& self) {
    const auto open = [&] {
      return opened(self.files.open(options.path.c_str(), O_RDONLY), options.path);
    };
    const auto by = [&](int file, device::Placement placement, long calls) {
      self.files.use(placement);
      return reads_ns(self, file, memory.as<char>(), calls);
    };
    const auto opened_by = [&](device::Placement placement) {
      const auto begin = Clock::now();
      const int file = open();
      by(file, placement, reopened_calls);
      self.files.close(file);
      return seconds_since(begin) * 1e9 / static_cast<double>(reopened_calls);
    };
    const int file = open();
    by(file, device::Placement::compute, reopened_calls);  // fills the cache
    measure_pairs(
        "re-read of 4 KiB", "ns per call",
        [&] { return by(file, device::Placement::compute, cached_calls); },
        [&] { return by(file, device::Placement::host, uncached_calls); });
    self.files.close(file);
    measure_pairs(
        "re-read of 4 KiB after another open", "ns per call",
        [&] { return opened_by(device::Placement::compute); },
        [&] { return opened_by(device::Placement::host); });
  });
}

const Subcommand registered("remote-reads", "URI", "small reads that were read before, of 16 MiB",
                            remote_reads);

}  // namespace
