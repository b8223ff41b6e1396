// Placement `compute` on pages that are resident in device memory, beside the plain calls on the
// same file in the kernel's page cache.
//
//   bench_cached_calls FILE     at least 256 MiB; a copy of its first part is written beside it
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <ferry/ferry.hpp>

#include "benchmarks/pairs.hpp"

namespace {

using namespace ferry;
using namespace ferry::benchmarks;

constexpr int pair_count = 24;
constexpr std::uint64_t file_bytes = 256ULL << 20;
constexpr std::uint64_t page_bytes = 64 << 10;
constexpr std::uint64_t large_bytes = 1 << 20;

void fail(const std::string& message) {
  std::cerr << "bench_cached_calls: " << message << '\n';
  std::exit(1);
}
void check(std::int64_t got, std::uint64_t wanted) {
  if (got != static_cast<std::int64_t>(wanted)) fail("a call gave " + std::to_string(got));
}

// The file's whole range, resident on both sides.
class Calls {
 public:
  Calls(DeviceThread& self, const std::string& path, char* memory)
      : files_(self.files),
        memory_(memory),
        file_(files_.open(path.c_str(), O_RDWR)),
        plain_(::open(path.c_str(), O_RDWR)) {
    if (file_ < 0 || plain_ < 0) fail("cannot open " + path);
    files_.use(device::Placement::compute);
    for (std::uint64_t at = 0; at < file_bytes; at += large_bytes) {
      check(files_.pread(file_, memory_, large_bytes, signed_of(at)), large_bytes);
      check(::pread(plain_, memory_, large_bytes, signed_of(at)), large_bytes);
    }
    std::mt19937_64 random(1);
    for (std::uint64_t& place : places_)
      place = random();
  }
  ~Calls() {
    files_.close(file_);
    ::close(plain_);
  }

  // ns per call; at random places, or one after the other.
  template <class Call>
  double each(std::uint64_t bytes, bool random, Call call) {
    const std::uint64_t total = bytes < 4096 ? 16ULL << 20 : 64ULL << 20;
    const long calls = static_cast<long>(std::min<std::uint64_t>(total / bytes, 65'536));
    const std::uint64_t count = file_bytes / bytes;
    return nanoseconds_each(calls, [&](long i) {
      const auto index = static_cast<std::uint64_t>(i);
      const std::uint64_t place = random ? places_[index % places_.size()] : index;
      check(call(place % count * bytes), bytes);
    });
  }
  double cached_read(std::uint64_t bytes, bool random) {
    return each(bytes, random, [&](std::uint64_t at) {
      return files_.pread(file_, memory_, bytes, signed_of(at));
    });
  }
  double plain_read(std::uint64_t bytes, bool random) {
    return each(bytes, random,
                [&](std::uint64_t at) { return ::pread(plain_, memory_, bytes, signed_of(at)); });
  }
  double cached_write(std::uint64_t bytes, bool random) {
    return each(bytes, random, [&](std::uint64_t at) {
      return files_.pwrite(file_, memory_, bytes, signed_of(at));
    });
  }
  double plain_write(std::uint64_t bytes, bool random) {
    return each(bytes, random,
                [&](std::uint64_t at) { return ::pwrite(plain_, memory_, bytes, signed_of(at)); });
  }

 private:
  static std::int64_t signed_of(std::uint64_t value) { return static_cast<std::int64_t>(value); }

  device::FileCalls<device::ThreadGroup>& files_;
  char* memory_;
  int file_;
  int plain_;
  std::vector<std::uint64_t> places_ = std::vector<std::uint64_t>(65'536);
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: bench_cached_calls FILE\n";
    return 2;
  }
  RuntimeOptions options;
  options.cache_bytes = file_bytes + (16 << 20);
  options.page_bytes = page_bytes;
  Runtime runtime(options);
  const Buffer buffer = runtime.allocate(large_bytes);
  runtime.run([&](DeviceThread& self) {
    if (self.index != 0) return;
    Calls calls(self, argv[1], buffer.as<char>());
    // Times, so that the speed-up is plain / cached: the cached call is the baseline.
    const auto reads = [&](const char* name, std::uint64_t bytes, bool random) {
      measure_pairs(
          name, "ns", pair_count, [&] { return calls.plain_read(bytes, random); },
          [&] { return calls.cached_read(bytes, random); });
    };
    reads("cached random read, 64 B: pread / compute", 64, true);
    reads("cached random read, 512 B: pread / compute", 512, true);
    reads("cached random read, 4 KiB: pread / compute", 4096, true);
    reads("cached sequential read, 64 KiB: pread / compute", 64 << 10, false);
    measure_pairs(
        "overwrite, 4 KiB: pwrite / compute", "ns", pair_count,
        [&] { return calls.plain_write(4096, false); },
        [&] { return calls.cached_write(4096, false); });
  });
}
