// Reads a file in place, page by page: through views that hold a cached page, compared with the
// same pages mapped by the kernel. Both sum every word.
#include <cstring>

#include <sys/mman.h>

#include "micro/device_file.hpp"
#include "micro/memory.hpp"

namespace {

using namespace ferry;
using namespace ferry::benchmarks;

constexpr std::uint64_t file_bytes = 256ULL << 20;
constexpr std::uint64_t page_bytes = 64 << 10;

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
    base_ = mmap(nullptr, file_bytes, PROT_READ, MAP_SHARED | MAP_POPULATE, file.number, 0);
    if (base_ == MAP_FAILED) fail("cannot map " + path);
  }
  ~Mapping() { munmap(base_, file_bytes); }
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
    for (std::uint64_t at = 0; at < file_bytes;) {
      device::cache::PinnedView view;
      const std::int64_t bytes =
          file_.files.hold(file_.number, static_cast<std::int64_t>(at), page_bytes, view);
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
    for (std::uint64_t at = 0; at < file_bytes; at += page_bytes)
      sum += sum_of(data + at, page_bytes);
    return sum;
  }

  DeviceFile file_;
  Mapping mapping_;
  HugeMemory bare_{file_bytes};
};

void held_views(const BenchmarkOptions& options) {
  RuntimeOptions runtime_options = one_thread(file_bytes + (16 << 20));
  runtime_options.page_bytes = page_bytes;
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

const Subcommand registered("held-views", "FILE", "views of cached pages beside mmap, of 256 MiB",
                            held_views);

}  // namespace
