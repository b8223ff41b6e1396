// Placement `host` on a cached file, compared with plain pread on the same CPU into the same
// memory, and with the minimal work: a pread executed by another core, with one word between the
// two.
#include <atomic>

#include "base/cpus.hpp"
#include "micro/device_file.hpp"

namespace {

using namespace ferry;
using namespace ferry::benchmarks;

constexpr std::uint64_t file_bytes = 64 << 20;
constexpr std::uint64_t small_bytes = 4096;
constexpr long small_calls = 8192;
constexpr std::uint64_t large_bytes = 1 << 20;
constexpr long large_calls = file_bytes / large_bytes;
constexpr int depth = 16;

class HotReads {
 public:
  HotReads(DeviceThread& self, const std::string& path, char* memory)
      : memory_(memory), file_(self.files, path), plain_(path) {
    plain(large_bytes, large_calls);  // brings the file into the kernel's page cache
  }

  double plain(std::uint64_t bytes, long calls) {
    return nanoseconds_each(calls,
                            [&](long i) { plain_.read(target(i, bytes), bytes, place(i, bytes)); });
  }
  double one_by_one(std::uint64_t bytes, long calls) {
    return nanoseconds_each(calls,
                            [&](long i) { file_.read(target(i, bytes), bytes, place(i, bytes)); });
  }
  // What placement host cannot do without: the other core executes the call, one word says which
  // and that it is done.
  double handed_over(std::uint64_t bytes, long calls, const CpuSet& server_cpus) {
    constexpr long leave = -2;
    constexpr long done = -1;
    alignas(64) std::atomic<long> word{done};
    std::thread server([&] {
      run_this_thread_on(server_cpus);
      for (long i = done; i != leave; i = word.load(std::memory_order_acquire)) {
        if (i == done) continue;
        plain_.read(target(i, bytes), bytes, place(i, bytes));
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
  double in_flight(std::uint64_t bytes, long calls) {
    device::Pending pending[depth];
    const double each = nanoseconds_each(calls, [&](long i) {
      device::Pending& next = pending[i % depth];
      if (i >= depth) check(file_.files.wait(next), bytes);
      next = file_.files.pread_async(file_.number, target(i, bytes), bytes,
                                     static_cast<std::int64_t>(place(i, bytes)));
    });
    for (device::Pending& last : pending)
      check(file_.files.wait(last), bytes);
    return each;
  }

 private:
  static std::uint64_t place(long i, std::uint64_t bytes) {
    return static_cast<std::uint64_t>(i) * bytes % file_bytes;
  }
  char* target(long i, std::uint64_t bytes) const {
    return memory_ + static_cast<std::uint64_t>(i % depth) * bytes;
  }

  char* memory_;
  DeviceFile file_;
  KernelFile plain_;
};

void hot_reads(const BenchmarkOptions& options) {
  on_device({}, depth * large_bytes, [&](Runtime& runtime, DeviceThread& self, char* memory) {
    const CpuSet server_cpus = parse_cpus(runtime.info().server_cpus);
    HotReads reads(self, options.path, memory);
    const auto plain = [&] { return reads.plain(small_bytes, small_calls); };
    measure_pairs(
        "4 KiB, depth 1: host / pread", "ns",
        [&] { return reads.one_by_one(small_bytes, small_calls); }, plain);
    measure_pairs(
        "4 KiB, depth 1: bare hand-over / pread", "ns",
        [&] { return reads.handed_over(small_bytes, small_calls, server_cpus); }, plain);
    measure_pairs(
        "4 KiB, depth 16: host / pread", "ns",
        [&] { return reads.in_flight(small_bytes, small_calls); }, plain);
    // Times, so that bandwidth of host / bandwidth of pread is baseline / ours.
    measure_pairs(
        "1 MiB, bandwidth: host / pread", "ns",
        [&] { return reads.plain(large_bytes, large_calls); },
        [&] { return reads.one_by_one(large_bytes, large_calls); });
  });
}

const Subcommand registered("hot-reads", "FILE",
                            "reads of the kernel's page cache by way of host, of 64 MiB",
                            hot_reads);

}  // namespace
