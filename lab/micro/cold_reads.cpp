// Cold direct reads for a fixed time; lab/micro/run interleaves them with fio on the same file.
// `sequential` and `random` use the host with a fixed number in flight; `cached` is one sequential
// pass through the device's page cache, call by call.
#include <random>
#include <vector>

#include <fcntl.h>

#include "micro/device_file.hpp"
#include "micro/pairs.hpp"
#include "micro/subcommand.hpp"

namespace {

using namespace ferry;
using namespace ferry::benchmarks;

double bytes_per_second(const DeviceFile& file, const BenchmarkOptions& job, char* memory) {
  auto& files = file.files;
  device::FileStatus status{};
  check(files.fstat(file.number, &status), 0);
  const std::uint64_t places = status.size_bytes / job.bytes;
  const bool random_places = job.kind == "random";
  std::mt19937_64 random(1);
  std::uint64_t next = 0;
  const auto start = [&](std::uint64_t slot) {
    const std::uint64_t place = (random_places ? random() : next++) % places;
    return files.pread_async(file.number, memory + slot * job.bytes, job.bytes,
                             static_cast<std::int64_t>(place * job.bytes));
  };
  std::vector<device::Pending> pending;
  const auto begin = Clock::now();
  const auto end = begin + std::chrono::duration<double>(job.seconds);
  for (std::uint64_t slot = 0; slot < job.depth; ++slot)
    pending.push_back(start(slot));
  std::uint64_t done = 0;
  const auto finish = [&](std::uint64_t slot) {
    check(files.wait(pending[slot]), job.bytes);
    ++done;
  };
  while (Clock::now() < end) {
    const unsigned slot = files.wait_any(pending.data(), static_cast<unsigned>(job.depth));
    finish(slot);
    pending[slot] = start(slot);
  }
  for (std::uint64_t slot = 0; slot < job.depth; ++slot)
    finish(slot);
  return static_cast<double>(done * job.bytes) / seconds_since(begin);
}

double cached_bytes_per_second(const DeviceFile& file, const BenchmarkOptions& job, char* memory) {
  std::int64_t at = 0;
  const auto begin = Clock::now();
  const auto end = begin + std::chrono::duration<double>(job.seconds);
  while (Clock::now() < end) {
    const std::int64_t got = file.files.pread(file.number, memory, job.bytes, at);
    if (got < 0) fail("a read gave " + std::to_string(got));
    if (got == 0) break;
    at += got;
  }
  return static_cast<double>(at) / seconds_since(begin);
}

void cold_reads(const BenchmarkOptions& options) {
  const bool cached = options.kind == "cached";
  on_device(cached ? one_thread(256 << 20) : RuntimeOptions(), options.bytes * options.depth,
            [&](Runtime&, DeviceThread& self, char* memory) {
              // Direct, so that the kernel's page cache has no part in it.
              const DeviceFile file(self.files, options.path, O_RDONLY | O_DIRECT);
              const auto measured = cached ? cached_bytes_per_second : bytes_per_second;
              report_figure("cold reads", "bytes/s", {measured(file, options, memory)});
            });
}

const Subcommand registered("cold-reads", "FILE sequential|random|cached --bytes --depth --seconds",
                            "direct reads beside which fio is measured", cold_reads);

}  // namespace
