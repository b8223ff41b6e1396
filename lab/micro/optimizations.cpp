// Records of 4 MiB in pages that are resident, with every optimisation of the cache on, beside
// memcpy over as much memory in huge pages and beside all of them off.
//
//   bench_optimizations FILE [WORD]     at least 256 MiB, opened for writing
#include <cstdlib>
#include <string>

#include <fcntl.h>

#include <ferry/ferry.hpp>

#include "micro/memory.hpp"
#include "micro/pairs.hpp"

namespace {

using namespace ferry;
using namespace ferry::benchmarks;

constexpr int pair_count = 24;
constexpr long records_per_block = 16;
constexpr std::uint64_t file_bytes = 256ULL << 20;
constexpr std::uint64_t record_bytes = 4 << 20;

void check(std::int64_t got) {
  if (got == static_cast<std::int64_t>(record_bytes)) return;
  std::cerr << "bench_optimizations: a call gave " << got << '\n';
  std::exit(1);
}

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
  Records(DeviceThread& self, Runtime& runtime, const char* path)
      : files_(self.files),
        memory_(runtime.allocate(record_bytes)),
        file_(files_.open(path, O_RDWR)) {
    for (std::uint64_t at = 0; at < file_bytes; at += record_bytes)
      check(files_.pread(file_, memory_.data(), record_bytes, static_cast<std::int64_t>(at)));
  }
  ~Records() { files_.close(file_); }
  Records(const Records&) = delete;
  Records& operator=(const Records&) = delete;

  double read() {
    return nanoseconds_each(records_per_block, [&](long) {
      check(files_.pread(file_, memory_.data(), record_bytes, next()));
    });
  }
  double write() {
    return nanoseconds_each(records_per_block, [&](long) {
      check(files_.pwrite(file_, memory_.data(), record_bytes, next()));
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
      "4 MiB records, read: memcpy / all on", "ns", pair_count, [&] { return on.copy(bare, true); },
      [&] { return on.read(); });
  measure_pairs(
      "4 MiB records, write: memcpy / all on", "ns", pair_count,
      [&] { return on.copy(bare, false); }, [&] { return on.write(); });
  measure_pairs(
      "4 MiB records, read: all off / all on", "ns", pair_count, [&] { return off.read(); },
      [&] { return on.read(); });
  measure_pairs(
      "4 MiB records, write: all off / all on", "ns", pair_count, [&] { return off.write(); },
      [&] { return on.write(); });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    std::cerr << "usage: bench_optimizations FILE [WORD]\n";
    return 2;
  }
  if (argc == 3) only = argv[2];
  Runtime with(options_with({}));
  Runtime without(options_with({false, false, false, false, false, false}));
  const HugeMemory bare(file_bytes);
  // One program inside the other: this thread waits while that one makes the calls of both.
  with.run([&](DeviceThread& self) {
    Records on(self, with, argv[1]);
    without.run([&](DeviceThread& other) {
      Records off(other, without, argv[1]);
      measure(on, off, bare);
    });
  });
}
