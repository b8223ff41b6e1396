// One pass over a file that the kernel has in memory and the device's page cache has not, beside
// pread of the same bytes into the same memory.
//
// bare-fills: the minimal part of such a pass. A thread that reads pieces into memory of its own,
// a thread that copies each as soon as it is there, and one word for each piece between them.
#include <atomic>

#include <sys/stat.h>

#include "base/cpus.hpp"
#include "micro/device_file.hpp"
#include "micro/memory.hpp"

namespace {

using namespace ferry;
using namespace ferry::benchmarks;

constexpr std::uint64_t file_bytes = 256ULL << 20;
constexpr std::uint64_t largest_bytes = 16 << 20;
constexpr std::uint64_t page_bytes = 64 << 10;
constexpr std::uint64_t bare_piece_bytes = 256 << 10;

// Nanoseconds of one pass.
template <class File>
double pass(const File& file, char* memory, std::uint64_t call_bytes) {
  return nanoseconds_of([&] { read_through(file, memory, call_bytes, file_bytes); });
}

// A file that was changed is dropped from the cache at the next open.
void make_cold(const std::string& path) {
  check(::utimensat(AT_FDCWD, path.c_str(), nullptr, 0), 0);
}

// The file's pieces, read by a thread of its own and copied by the caller.
class BarePipeline {
 public:
  explicit BarePipeline(const std::string& path) : file_(path), frames_(file_bytes) {
    reader_ = std::thread([this] { read_passes(); });
  }
  ~BarePipeline() {
    stop_ = true;
    reader_.join();
  }
  BarePipeline(const BarePipeline&) = delete;
  BarePipeline& operator=(const BarePipeline&) = delete;

  double pass(char* memory, std::uint64_t call_bytes) {
    const std::uint64_t step = std::min(call_bytes, bare_piece_bytes);
    step_ = step;
    return nanoseconds_of([&] {
      there_.store(0, std::memory_order_relaxed);
      wanted_.fetch_add(1, std::memory_order_release);
      for (std::uint64_t at = 0; at < file_bytes; at += step) {
        while (there_.load(std::memory_order_acquire) < at + step) {
        }
        library_copy(memory + at % call_bytes, frames_.data() + at, step);
      }
    });
  }

 private:
  void read_passes() {
    run_this_thread_on({allowed_cpus().back()});
    for (std::uint64_t done = 0; !stop_;) {
      if (wanted_.load(std::memory_order_acquire) == done) continue;
      ++done;
      for (std::uint64_t at = 0; at < file_bytes; at += step_) {
        file_.read(frames_.data() + at, step_, at);
        there_.store(at + step_, std::memory_order_release);
      }
    }
  }

  KernelFile file_;
  HugeMemory frames_;
  std::uint64_t step_ = 0;
  alignas(64) std::atomic<std::uint64_t> wanted_{0};  // passes
  alignas(64) std::atomic<std::uint64_t> there_{0};   // bytes of this pass
  std::atomic<bool> stop_{false};
  std::thread reader_;
};

std::string measure_name(std::uint64_t call_bytes, const char* ours) {
  return "cold fills, " + std::to_string(call_bytes >> 10) + " KiB: pread / " + ours;
}

// Times, so that the speed-up is pread's time / ours.
void cold_fills(const BenchmarkOptions& options) {
  const KernelFile plain(options.path);
  RuntimeOptions runtime_options = one_thread(2 * file_bytes);
  runtime_options.page_bytes = page_bytes;
  on_device(runtime_options, largest_bytes, [&](Runtime&, DeviceThread& self, char* memory) {
    for (std::uint64_t bytes = page_bytes; bytes <= largest_bytes; bytes *= 4) {
      const auto ours = [&] {
        make_cold(options.path);
        const DeviceFile file(self.files, options.path);
        return pass(file, memory, bytes);
      };
      measure_pairs(
          measure_name(bytes, "compute"), "ns", [&] { return pass(plain, memory, bytes); }, ours);
    }
  });
}

void bare_fills(const BenchmarkOptions& options) {
  const KernelFile plain(options.path);
  BarePipeline pipeline(options.path);
  const HugeMemory memory(largest_bytes);
  run_this_thread_on({allowed_cpus().front()});
  for (std::uint64_t bytes = page_bytes; bytes <= largest_bytes; bytes *= 4) {
    measure_pairs(
        measure_name(bytes, "bare threads"), "ns",
        [&] { return pass(plain, memory.data(), bytes); },
        [&] { return pipeline.pass(memory.data(), bytes); });
  }
}

const Subcommand for_cold("cold-fills", "FILE", "one pass through an empty page cache, of 256 MiB",
                          cold_fills);
const Subcommand for_bare("bare-fills", "FILE", "the same by two bare threads", bare_fills);

}  // namespace
