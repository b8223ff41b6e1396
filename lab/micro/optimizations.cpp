// Records of 4 MiB in resident pages, with all optimisations of the cache, compared with memcpy
// over as much memory in huge pages, and with no optimisations.
#include <string>

#include <fcntl.h>

#include <ferry/ferry.hpp>

#include "micro/memory.hpp"
#include "micro/pairs.hpp"
#include "micro/subcommand.hpp"

namespace {

using namespace ferry;
using namespace ferry::benchmarks;

constexpr long records_per_block = 16;
constexpr std::uint64_t file_bytes = 256ULL << 20;
constexpr std::uint64_t record_bytes = 4 << 20;

RuntimeOptions options_with(const device::cache::Switches& switches) {
  RuntimeOptions options;
  options.device_threads = 1;
  // Half of a cache may be dirty before it is written in the background: this all is, then.
  options.cache_bytes = 2 * file_bytes + (32 << 20);
  options.cache_switches = switches;
  options.placement = device::Placement::compute;
  return options;
}

// One runtime's view of the file.
class Records {
 public:
  Records(DeviceThread& self, Runtime& runtime, const std::string& path)
      : files_(self.files),
        memory_(runtime.allocate(record_bytes)),
        file_(opened(files_.open(path.c_str(), O_RDWR), path)) {
    read_through(files_, file_, memory_.data(), record_bytes, file_bytes);
  }
  ~Records() { files_.close(file_); }
  Records(const Records&) = delete;
  Records& operator=(const Records&) = delete;

  double read() {
    return nanoseconds_each(records_per_block, [&](long) {
      check(files_.pread(file_, memory_.data(), record_bytes, next()), record_bytes);
    });
  }
  double write() {
    return nanoseconds_each(records_per_block, [&](long) {
      check(files_.pwrite(file_, memory_.data(), record_bytes, next()), record_bytes);
    });
  }
  double copy(const HugeMemory& bare, bool reading) {
    return nanoseconds_each(records_per_block, [&](long) {
      char* place = bare.data() + next();
      library_copy(reading ? memory_.data() : place, reading ? place : memory_.data(),
                   record_bytes);
    });
  }

 private:
  std::int64_t next() {
    at_ = (at_ + record_bytes) % file_bytes;
    return static_cast<std::int64_t>(at_);
  }

  device::FileCalls<device::ThreadGroup>& files_;
  Buffer memory_;
  int file_;
  std::uint64_t at_ = 0;
};

void measure(Records& on, Records& off, const HugeMemory& bare) {
  measure_pairs(
      "4 MiB records, read: memcpy / all on", "ns", [&] { return on.copy(bare, true); },
      [&] { return on.read(); });
  measure_pairs(
      "4 MiB records, write: memcpy / all on", "ns", [&] { return on.copy(bare, false); },
      [&] { return on.write(); });
  measure_pairs(
      "4 MiB records, read: all off / all on", "ns", [&] { return off.read(); },
      [&] { return on.read(); });
  measure_pairs(
      "4 MiB records, write: all off / all on", "ns", [&] { return off.write(); },
      [&] { return on.write(); });
}

void optimizations(const BenchmarkOptions& options) {
  Runtime with(options_with({}));
  Runtime without(options_with({false, false, false, false, false, false}));
  const HugeMemory bare(file_bytes);
  // One program inside the other: this thread waits while that one makes the calls of both.
  with.run([&](DeviceThread& self) {
    Records on(self, with, options.path);
    without.run([&](DeviceThread& other) {
      Records off(other, without, options.path);
      measure(on, off, bare);
    });
  });
}

const Subcommand registered("optimizations", "FILE",
                            "the page cache's optimisations, of 256 MiB that are overwritten",
                            optimizations);

}  // namespace
