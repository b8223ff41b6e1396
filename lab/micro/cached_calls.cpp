// Placement `compute` on resident pages, compared with plain calls on the same cached file and with
// bare copies over as much memory in huge pages.
#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <ferry/ferry.hpp>

#include "micro/memory.hpp"
#include "micro/pairs.hpp"
#include "micro/subcommand.hpp"

namespace {

using namespace ferry;
using namespace ferry::benchmarks;

constexpr std::uint64_t file_bytes = 256ULL << 20;
constexpr std::uint64_t page_bytes = 64 << 10;
constexpr std::uint64_t large_bytes = 1 << 20;
// In one block: enough that what a block finds in the core's caches of the other's is no matter.
constexpr std::uint64_t calls_max = 64 << 10;

// The file's whole range, resident on both sides, and as much bare memory.
class Calls {
 public:
  Calls(DeviceThread& self, const std::string& path, char* memory)
      : files_(self.files),
        memory_(memory),
        file_(opened(files_.open(path.c_str(), O_RDWR), path)),
        plain_(opened(::open(path.c_str(), O_RDWR), path)) {
    files_.use(device::Placement::compute);
    read_through(files_, file_, memory_, large_bytes, file_bytes);
    for (std::uint64_t at = 0; at < file_bytes; at += large_bytes)
      check(::pread(plain_, memory_, large_bytes, signed_of(at)), large_bytes);
  }
  ~Calls() {
    files_.close(file_);
    ::close(plain_);
  }
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;

  // ns per call; at random places, new ones for every block, or one after the other.
  template <class Call>
  double each(std::uint64_t bytes, bool random, Call call) {
    const auto calls = std::min<std::uint64_t>((64ULL << 20) / bytes, calls_max);
    const std::uint64_t count = file_bytes / bytes;
    places_.resize(calls);
    for (std::uint64_t& place : places_)
      place = (random ? random_() : next_++) % count * bytes;
    return nanoseconds_each(static_cast<long>(calls), [&](long i) {
      check(call(places_[static_cast<std::size_t>(i)]), bytes);
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
  double copy_out(std::uint64_t bytes, bool random) {
    return each(bytes, random, [&](std::uint64_t at) {
      library_copy(memory_, bare_.data() + at, bytes);
      return signed_of(bytes);
    });
  }
  double cached_write(std::uint64_t bytes) {
    return each(bytes, false, [&](std::uint64_t at) {
      return files_.pwrite(file_, memory_, bytes, signed_of(at));
    });
  }
  double plain_write(std::uint64_t bytes) {
    return each(bytes, false,
                [&](std::uint64_t at) { return ::pwrite(plain_, memory_, bytes, signed_of(at)); });
  }
  double copy_in(std::uint64_t bytes, Copy copy) {
    return each(bytes, false, [&](std::uint64_t at) {
      copy(bare_.data() + at, memory_, bytes);
      return signed_of(bytes);
    });
  }
  // The faster of the library's copy and the streaming one.
  Copy best_copy_in(std::uint64_t bytes) {
    double library = copy_in(bytes, library_copy);
    double streaming = copy_in(bytes, streaming_copy());
    for (int i = 0; i < 4; ++i) {
      library = std::min(library, copy_in(bytes, library_copy));
      streaming = std::min(streaming, copy_in(bytes, streaming_copy()));
    }
    return streaming < library ? streaming_copy() : library_copy;
  }

 private:
  static std::int64_t signed_of(std::uint64_t value) { return static_cast<std::int64_t>(value); }

  device::FileCalls<device::ThreadGroup>& files_;
  char* memory_;
  int file_;
  int plain_;
  HugeMemory bare_{file_bytes};
  std::mt19937_64 random_{1};
  std::uint64_t next_ = 0;
  std::vector<std::uint64_t> places_;
};

// Times, so that the speed-up is other / compute: the cached call is the baseline.
void measure_reads(Calls& calls, const std::string& name, std::uint64_t bytes, bool random) {
  const auto cached = [&] { return calls.cached_read(bytes, random); };
  measure_pairs(
      name + ": pread / compute", "ns", [&] { return calls.plain_read(bytes, random); }, cached);
  measure_pairs(
      name + ": memcpy / compute", "ns", [&] { return calls.copy_out(bytes, random); }, cached);
  // What the machine allows: nobody reads these bytes faster than a copy without a look-up.
  measure_pairs(
      name + ": pread / bare memcpy", "ns", [&] { return calls.plain_read(bytes, random); },
      [&] { return calls.copy_out(bytes, random); });
}
void measure_small_writes(Calls& calls, const std::string& name, std::uint64_t bytes) {
  const auto plain = [&] { return calls.plain_write(bytes); };
  measure_pairs(name + ": pwrite / compute", "ns", plain,
                [&] { return calls.cached_write(bytes); });
  measure_pairs(name + ": pwrite / bare memcpy", "ns", plain,
                [&] { return calls.copy_in(bytes, library_copy); });
}
void measure_large_writes(Calls& calls, const std::string& name, std::uint64_t bytes) {
  if (!is_wanted(name)) return;
  const Copy copy = calls.best_copy_in(bytes);
  measure_pairs(
      name, "ns", [&] { return calls.copy_in(bytes, copy); },
      [&] { return calls.cached_write(bytes); });
}

void cached_calls(const BenchmarkOptions& options) {
  RuntimeOptions runtime_options;
  runtime_options.device_threads = 1;
  // Half of a cache may be dirty before it is written in the background: this all is, then.
  runtime_options.cache_bytes = 2 * file_bytes + (32 << 20);
  runtime_options.page_bytes = page_bytes;
  Runtime runtime(runtime_options);
  const Buffer buffer = runtime.allocate(large_bytes);
  runtime.run([&](DeviceThread& self) {
    Calls calls(self, options.path, buffer.as<char>());
    measure_reads(calls, "cached random read, 64 B", 64, true);
    measure_reads(calls, "cached random read, 512 B", 512, true);
    measure_reads(calls, "cached random read, 4 KiB", 4096, true);
    measure_reads(calls, "cached sequential read, 64 KiB", 64 << 10, false);
    measure_small_writes(calls, "overwrite, 4 KiB", 4096);
    measure_large_writes(calls, "overwrite, 64 KiB: best copy / compute", 64 << 10);
    measure_large_writes(calls, "overwrite, 1 MiB: best copy / compute", 1 << 20);
  });
}

const Subcommand registered("cached-calls", "FILE",
                            "reads and writes of resident pages, of 256 MiB that are overwritten",
                            cached_calls);

}  // namespace
