// Repeated reads of 4 KiB by a device thread: through the device's page cache, and by placement
// `host`, which always asks the storage. In a file that stays open, and in one reopened before each
// block of reads, where the cache must revalidate its pages.
#include "micro/device_file.hpp"

namespace {

using namespace ferry;
using namespace ferry::benchmarks;

constexpr std::uint64_t file_bytes = 16 << 20;
constexpr std::uint64_t read_bytes = 4096;
constexpr long cached_calls = 20'000;
constexpr long uncached_calls = 1000;
constexpr long reopened_calls = file_bytes / read_bytes;  // by both, as the open counts

// Scattered, so that nothing is read ahead.
std::uint64_t place(long i) {
  return static_cast<std::uint64_t>(i) * 1'103'515'245 % (file_bytes / read_bytes) * read_bytes;
}

void remote_reads(const BenchmarkOptions& options) {
  RuntimeOptions runtime_options = one_thread(64 << 20);
  runtime_options.arena_bytes = 128 << 20;
  runtime_options.page_bytes = 4096;
  on_device(runtime_options, read_bytes, [&](Runtime&, DeviceThread& self, char* memory) {
    const auto by = [&](const DeviceFile& file, device::Placement placement, long calls) {
      self.files.use(placement);
      return nanoseconds_each(calls, [&](long i) { file.read(memory, read_bytes, place(i)); });
    };
    const auto opened_by = [&](device::Placement placement) {
      const double all = nanoseconds_of(
          [&] { by(DeviceFile(self.files, options.path), placement, reopened_calls); });
      return all / static_cast<double>(reopened_calls);
    };
    {
      const DeviceFile file(self.files, options.path);
      by(file, device::Placement::compute, reopened_calls);  // fills the cache
      measure_pairs(
          "re-read of 4 KiB", "ns per call",
          [&] { return by(file, device::Placement::compute, cached_calls); },
          [&] { return by(file, device::Placement::host, uncached_calls); });
    }
    measure_pairs(
        "re-read of 4 KiB after another open", "ns per call",
        [&] { return opened_by(device::Placement::compute); },
        [&] { return opened_by(device::Placement::host); });
  });
}

const Subcommand registered("remote-reads", "URI", "small reads that were read before, of 16 MiB",
                            remote_reads);

}  // namespace
