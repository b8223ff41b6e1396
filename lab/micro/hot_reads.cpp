// Placement `host` on a file in the kernel's page cache, beside plain pread on the same CPU and
// into the same memory. And the irreducible part of it: a pread that another core executes, with
// one word between the two.
//
//   bench_hot_reads FILE     at least 64 MiB; read once before measuring
#include <atomic>
#include <cstdlib>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <ferry/ferry.hpp>

#include "base/cpus.hpp"
#include "micro/pairs.hpp"

namespace {

using namespace ferry;
using namespace ferry::benchmarks;

constexpr int pair_count = 24;
constexpr long file_bytes = 64L << 20;
constexpr long small_bytes = 4096;
constexpr long small_calls = 8192;
constexpr long large_bytes = 1L << 20;
constexpr int depth = 16;

void check(std::int64_t got, long wanted) {
  if (got == wanted) return;
  std::cerr << "bench_hot_reads: a read gave " << got << " instead of " << wanted << '\n';
  std::exit(1);
}

class HotReads {
 public:
  HotReads(DeviceThread& self, const char* path, char* memory)
      : files_(self.files),
        memory_(memory),
        file_(files_.open(path, O_RDONLY)),
        plain_(::open(path, O_RDONLY)) {
    if (file_ < 0 || plain_ < 0) {
      std::cerr << "bench_hot_reads: cannot open " << path << '\n';
      std::exit(1);
    }
    for (long at = 0; at < file_bytes; at += large_bytes) {
      check(::pread(plain_, memory_, large_bytes, at), large_bytes);
    }
  }
  ~HotReads() {
    files_.close(file_);
    ::close(plain_);
  }

  double plain(long bytes, long calls) {
    return nanoseconds_each(calls, [&](long i) {
      check(::pread(plain_, target(i, bytes), static_cast<std::size_t>(bytes), at(i, bytes)),
            bytes);
    });
  }
  double one_by_one(long bytes, long calls) {
    return nanoseconds_each(calls, [&](long i) {
      check(files_.pread(file_, target(i, bytes), static_cast<std::uint64_t>(bytes), at(i, bytes)),
            bytes);
    });
  }
  // What placement host cannot do without: the other core executes the call, one word says which
  // and that it is done.
  double handed_over(long bytes, long calls, const CpuSet& server_cpus) {
    constexpr long leave = -2;
    constexpr long done = -1;
    alignas(64) std::atomic<long> word{done};
    std::thread server([&] {
      run_this_thread_on(server_cpus);
      for (long i = done; i != leave; i = word.load(std::memory_order_acquire)) {
        if (i == done) continue;
        check(::pread(plain_, target(i, bytes), static_cast<std::size_t>(bytes), at(i, bytes)),
              bytes);
        word.store(done, std::memory_order_release);
      }
    });
    const auto call = [&](long i) {
      word.store(i, std::memory_order_release);
      while (word.load(std::memory_order_acquire) != done) {
      }
    };
    call(0);  // the thread is there
    const double each = nanoseconds_each(calls, call);
    word.store(leave, std::memory_order_release);
    server.join();
    return each;
  }
  // Always `depth` reads in flight.
  double in_flight(long bytes, long calls) {
    device::Pending pending[depth];
    const double each = nanoseconds_each(calls, [&](long i) {
      device::Pending& next = pending[i % depth];
      if (i >= depth) check(files_.wait(next), bytes);
      next = files_.pread_async(file_, target(i, bytes), static_cast<std::uint64_t>(bytes),
                                at(i, bytes));
    });
    for (device::Pending& last : pending)
      check(files_.wait(last), bytes);
    return each;
  }

 private:
  static long at(long i, long bytes) { return i * bytes % file_bytes; }
  char* target(long i, long bytes) const { return memory_ + i % depth * bytes; }

  device::FileCalls<device::ThreadGroup>& files_;
  char* memory_;
  int file_;
  int plain_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: bench_hot_reads FILE\n";
    return 2;
  }
  Runtime runtime;
  const CpuSet server_cpus = parse_cpus(runtime.info().server_cpus);
  const Buffer buffer = runtime.allocate(depth * large_bytes);
  runtime.run([&](DeviceThread& self) {
    if (self.index != 0) return;
    HotReads reads(self, argv[1], buffer.as<char>());
    measure_pairs(
        "4 KiB, depth 1: host / pread", "ns", pair_count,
        [&] { return reads.one_by_one(small_bytes, small_calls); },
        [&] { return reads.plain(small_bytes, small_calls); });
    measure_pairs(
        "4 KiB, depth 1: bare hand-over / pread", "ns", pair_count,
        [&] { return reads.handed_over(small_bytes, small_calls, server_cpus); },
        [&] { return reads.plain(small_bytes, small_calls); });
    measure_pairs(
        "4 KiB, depth 16: host / pread", "ns", pair_count,
        [&] { return reads.in_flight(small_bytes, small_calls); },
        [&] { return reads.plain(small_bytes, small_calls); });
    // Times, so that bandwidth of host / bandwidth of pread is baseline / ours.
    measure_pairs(
        "1 MiB, bandwidth: host / pread", "ns", pair_count,
        [&] { return reads.plain(large_bytes, file_bytes / large_bytes); },
        [&] { return reads.one_by_one(large_bytes, file_bytes / large_bytes); });
  });
}
