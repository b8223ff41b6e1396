// One cold sequential pass over a file through the page cache, as far as it comes in a fixed time;
// lab/micro/run interleaves it with fio on the same file. Direct, so that the kernel's page cache
// has no part in it.
//
//   bench_cold_cached FILE TRANSFER_BYTES SECONDS     prints bytes per second
#include <cstdlib>
#include <string>

#include <fcntl.h>

#include <ferry/ferry.hpp>

#include "micro/pairs.hpp"

namespace {

using namespace ferry;
using namespace ferry::benchmarks;

void fail(const std::string& message) {
  std::cerr << "bench_cold_cached: " << message << '\n';
  std::exit(1);
}

double bytes_per_second(DeviceThread& self, const char* path, void* memory, std::uint64_t bytes,
                        double seconds) {
  const int file = self.files.open(path, O_RDONLY | O_DIRECT);
  if (file < 0) fail(std::string("cannot open ") + path);
  std::int64_t at = 0;
  const auto begin = Clock::now();
  const auto end = begin + std::chrono::duration<double>(seconds);
  while (Clock::now() < end) {
    const std::int64_t got = self.files.pread(file, memory, bytes, at);
    if (got < 0) fail("a read gave " + std::to_string(got));
    if (got == 0) break;
    at += got;
  }
  const std::chrono::duration<double> elapsed = Clock::now() - begin;
  self.files.close(file);
  return static_cast<double>(at) / elapsed.count();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::cerr << "usage: bench_cold_cached FILE TRANSFER_BYTES SECONDS\n";
    return 2;
  }
  const std::uint64_t bytes = std::stoul(argv[2]);
  const double seconds = std::stod(argv[3]);
  RuntimeOptions options;
  options.device_threads = 1;
  options.cache_bytes = 256ULL << 20;
  options.placement = device::Placement::compute;
  Runtime runtime(options);
  const Buffer buffer = runtime.allocate(bytes);
  runtime.run([&](DeviceThread& self) {
    std::cout << bytes_per_second(self, argv[1], buffer.data(), bytes, seconds) << std::endl;
  });
}
