// Reads of what was read before.
//
// hot-reads: placement `host` on a cached file, compared with plain pread on the same CPU into the
// same memory, and with the minimal work: a pread executed by another core, with one word between
// the two.
//
// held-views: a file in place, page by page: through views that hold a cached page, compared with
// the same pages mapped by the kernel. Both sum every word.
//
// remote-reads: 4 KiB by a device thread: through the device's page cache, and by placement `host`,
// which always asks the storage. In a file that stays open, and in one reopened before each block
// of reads, where the cache must revalidate its pages.
#include <cstring>

#include <sys/mman.h>

#include "micro/device_file.hpp"
#include "micro/hand_over.hpp"
#include "micro/memory.hpp"

namespace {

using namespace ferry;
using namespace ferry::benchmarks;

constexpr std::uint64_t hot_bytes = 64 << 20;
constexpr std::uint64_t small_bytes = 4096;
constexpr long small_calls = 8192;
constexpr std::uint64_t large_bytes = 1 << 20;
constexpr long large_calls = hot_bytes / large_bytes;
constexpr int depth = 16;

constexpr std::uint64_t viewed_bytes = 256ULL << 20;
constexpr std::uint64_t view_bytes = 64 << 10;

constexpr std::uint64_t reread_bytes = 16 << 20;
constexpr std::uint64_t read_bytes = 4096;
constexpr long cached_calls = 20'000;
constexpr long uncached_calls = 1000;
constexpr long reopened_calls = reread_bytes / read_bytes;  // by both, as the open counts

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
  double handed_over(std::uint64_t bytes, long calls, const CpuSet& server_cpus) {
    return benchmarks::handed_over(
        calls, server_cpus, [&](long i) { plain_.read(target(i, bytes), bytes, place(i, bytes)); });
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
    return static_cast<std::uint64_t>(i) * bytes % hot_bytes;
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

std::uint64_t sum_of(const unsigned char* data, std::uint64_t bytes) {
  std::uint64_t sum = 0;
  for (std::uint64_t at = 0; at < bytes; at += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, data + at, sizeof word);
    sum += word;
  }
  return sum;
}

// The file, mapped and touched.
class Mapping {
 public:
  explicit Mapping(const std::string& path) {
    const KernelFile file(path);
    base_ = mmap(nullptr, viewed_bytes, PROT_READ, MAP_SHARED | MAP_POPULATE, file.number, 0);
    if (base_ == MAP_FAILED) fail("cannot map " + path);
  }
  ~Mapping() { munmap(base_, viewed_bytes); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  const unsigned char* data() const { return static_cast<const unsigned char*>(base_); }

 private:
  void* base_;
};

class Sums {
 public:
  Sums(DeviceThread& self, const std::string& path) : file_(self.files, path), mapping_(path) {
    if (through_views() != through_mapping()) fail("the two disagree about the contents");
  }

  std::uint64_t through_views() {
    std::uint64_t sum = 0;
    for (std::uint64_t at = 0; at < viewed_bytes;) {
      device::cache::PinnedView view;
      const std::int64_t bytes =
          file_.files.hold(file_.number, static_cast<std::int64_t>(at), view_bytes, view);
      if (bytes <= 0) fail("hold gave " + std::to_string(bytes));
      sum += sum_of(view.data, static_cast<std::uint64_t>(bytes));
      at += static_cast<std::uint64_t>(bytes);
      file_.files.release(view);
    }
    return sum;
  }
  std::uint64_t through_mapping() const { return sum_of_pages(mapping_.data()); }
  // As much memory as the arena has it, without any call: what the machine allows.
  std::uint64_t bare() const {
    return sum_of_pages(reinterpret_cast<const unsigned char*>(bare_.data()));
  }

 private:
  static std::uint64_t sum_of_pages(const unsigned char* data) {
    std::uint64_t sum = 0;
    for (std::uint64_t at = 0; at < viewed_bytes; at += view_bytes)
      sum += sum_of(data + at, view_bytes);
    return sum;
  }

  DeviceFile file_;
  Mapping mapping_;
  HugeMemory bare_{viewed_bytes};
};

void held_views(const BenchmarkOptions& options) {
  RuntimeOptions runtime_options = one_thread(viewed_bytes + (16 << 20));
  runtime_options.page_bytes = view_bytes;
  Runtime(runtime_options).run([&](DeviceThread& self) {
    Sums sums(self, options.path);
    volatile std::uint64_t result = 0;
    const auto mapped = [&] { return nanoseconds_of([&] { result = sums.through_mapping(); }); };
    measure_pairs("pinned page view: mmap / hold", "ns", mapped,
                  [&] { return nanoseconds_of([&] { result = sums.through_views(); }); });
    measure_pairs("pinned page view: mmap / bare memory", "ns", mapped,
                  [&] { return nanoseconds_of([&] { result = sums.bare(); }); });
  });
}

// Scattered, so that nothing is read ahead.
std::uint64_t place(long i) {
  return static_cast<std::uint64_t>(i) * 1'103'515'245 % (reread_bytes / read_bytes) * read_bytes;
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

const Subcommand for_hot("hot-reads", "FILE",
                         "reads of the kernel's page cache by way of host, of 64 MiB", hot_reads);
const Subcommand for_views("held-views", "FILE", "views of cached pages beside mmap, of 256 MiB",
                           held_views);
const Subcommand for_remote("remote-reads", "URI", "small reads that were read before, of 16 MiB",
                            remote_reads);

}  // namespace
