// The tail of cached reads: 4 KiB at random out of 16 MiB that stay in the cache, alone, and while
// another thread reads and writes more through the same cache than it holds, 64 KiB at a time, so
// that the cache reads ahead, writes back and evicts all the time. That thread runs on the server's
// CPU, the reader on another.
//
// Through the device's cache; by plain calls, whose cache is the kernel's; and by bare copies out
// of memory beside the work of the device's cache: what the machine alone does to a tail.
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "base/cpus.hpp"
#include "harness/latency_histogram.hpp"
#include "micro/device_file.hpp"
#include "micro/memory.hpp"

namespace {

using namespace ferry;
using namespace ferry::benchmarks;

constexpr std::uint64_t cache_bytes = 64 << 20;
constexpr std::uint64_t hot_bytes = 16 << 20;
constexpr std::uint64_t hot_read_bytes = 4096;
constexpr std::uint64_t streamed_bytes = 128 << 20;  // of each file; of the hot one behind that
constexpr std::uint64_t stream_call_bytes = 64 << 10;
constexpr unsigned timed_calls = 200'000;  // of a sample

// Has another thread at work while it exists. That thread calls serve().
class Work {
 public:
  // Until end().
  template <class Step>
  void serve(Step step) {
    for (;;) {
      wanted_.wait(State::idle);
      if (wanted_ == State::ended) return;
      running_ = true;
      running_.notify_one();
      for (std::uint64_t i = 0; wanted_ == State::working; ++i)
        step(i * stream_call_bytes % streamed_bytes);
      running_ = false;
      running_.notify_one();
    }
  }
  void begin() {
    want(State::working);
    running_.wait(false);
  }
  void pause() {
    want(State::idle);
    running_.wait(true);
  }
  void end() { want(State::ended); }

 private:
  enum class State : std::uint8_t { idle, working, ended };

  void want(State state) {
    wanted_ = state;
    wanted_.notify_one();
  }

  std::atomic<State> wanted_{State::idle};
  std::atomic<bool> running_{false};
};

// Each step of the other thread.
template <class File>
auto streaming(const File& from, const File& to, char* memory) {
  return [&from, &to, memory](std::uint64_t at) {
    from.read(memory, stream_call_bytes, hot_bytes + at);
    to.write(memory, stream_call_bytes, at);
  };
}

template <class Read>
bench::LatencyHistogram latencies_of(Read read_at) {
  bench::LatencyHistogram timed;
  std::uint64_t random = 1;
  for (unsigned i = 0; i < timed_calls; ++i) {
    random = random * 6'364'136'223'846'793'005 + 1'442'695'040'888'963'407;
    const std::uint64_t at = (random >> 33) % (hot_bytes / hot_read_bytes) * hot_read_bytes;
    const auto begin = Clock::now();
    read_at(at);
    timed.note(static_cast<std::uint64_t>((Clock::now() - begin).count()));
  }
  return timed;
}

// Figures: the latency that one call in a thousand exceeds, over the median.
template <class Read>
void measure(const std::string& who, Work& work, Read read_at) {
  std::vector<double> alone;
  std::vector<double> beside;
  const auto sample = [&](std::vector<double>& tails) {
    const bench::LatencyHistogram timed = latencies_of(read_at);
    tails.push_back(static_cast<double>(timed.percentile(999)) /
                    static_cast<double>(timed.percentile(500)));
  };
  latencies_of(read_at);  // brings in what is read
  for (int i = 0; i < pair_count; ++i) {
    sample(alone);
    work.begin();
    sample(beside);
    work.pause();
  }
  report_figure("99.9 % / median of 4 KiB, alone: " + who, "", alone);
  report_figure("99.9 % / median of 4 KiB, beside the cache's work: " + who, "", beside);
}

void measure_device(const BenchmarkOptions& options) {
  RuntimeOptions wishes = one_thread(cache_bytes);
  wishes.device_threads = 2;
  Runtime runtime(wishes);
  const Buffer buffer = runtime.allocate(2 * stream_call_bytes);
  const CpuSet server_cpus = parse_cpus(runtime.info().server_cpus);
  const HugeMemory bare(hot_bytes);
  Work work;
  runtime.run([&](DeviceThread& self) {
    char* const memory = buffer.as<char>() + self.index * stream_call_bytes;
    const DeviceFile file(self.files, options.path);
    if (self.index == 1) {
      run_this_thread_on(server_cpus);
      const DeviceFile other(self.files, options.other, O_RDWR);
      work.serve(streaming(file, other, memory));
      return;
    }
    measure("compute", work, [&](std::uint64_t at) { file.read(memory, hot_read_bytes, at); });
    measure("bare memcpy", work,
            [&](std::uint64_t at) { library_copy(memory, bare.data() + at, hot_read_bytes); });
    work.end();
  });
}

void measure_plain(const BenchmarkOptions& options) {
  const CpuSet cpus = allowed_cpus();
  std::vector<char> memory(2 * stream_call_bytes);
  const KernelFile file(options.path);
  const KernelFile other(options.other, O_RDWR);
  Work work;
  const std::jthread streamer([&] {
    run_this_thread_on_cpu(cpus.back());
    work.serve(streaming(file, other, memory.data() + stream_call_bytes));
  });
  std::jthread([&] {
    run_this_thread_on_cpu(cpus.front());
    measure("pread", work, [&](std::uint64_t at) { file.read(memory.data(), hot_read_bytes, at); });
    work.end();
  }).join();
}

void tail(const BenchmarkOptions& options) {
  measure_device(options);
  measure_plain(options);
}

const Subcommand registered("tail", "FILE OTHER",
                            "the slowest of cached reads while the cache is at work", tail);

}  // namespace
