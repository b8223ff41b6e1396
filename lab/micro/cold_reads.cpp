// Cold direct reads with a fixed number in flight, for a fixed time; lab/micro/run interleaves it
// with fio on the same file.
//
//   bench_cold_reads FILE sequential|random TRANSFER_BYTES DEPTH SECONDS
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include <fcntl.h>

#include <ferry/ferry.hpp>

#include "micro/pairs.hpp"

namespace {

using namespace ferry;
using namespace ferry::benchmarks;

struct Job {
  std::string path;
  bool random;
  std::uint64_t bytes;
  unsigned depth;
  double seconds;
};

void fail(const std::string& message) {
  std::cerr << "bench_cold_reads: " << message << '\n';
  std::exit(1);
}

double bytes_per_second(DeviceThread& self, const Job& job, char* memory) {
  auto& files = self.files;
  const int file = files.open(job.path.c_str(), O_RDONLY | O_DIRECT);
  device::FileStatus status{};
  if (file < 0 || files.fstat(file, &status) != 0) fail("cannot open " + job.path);
  const std::uint64_t places = status.size_bytes / job.bytes;
  std::mt19937_64 random(1);
  std::uint64_t next = 0;
  const auto start = [&](unsigned slot) {
    const std::uint64_t place = (job.random ? random() : next++) % places;
    return files.pread_async(file, memory + slot * job.bytes, job.bytes,
                             static_cast<std::int64_t>(place * job.bytes));
  };
  std::vector<device::Pending> pending;
  const auto begin = Clock::now();
  const auto end = begin + std::chrono::duration<double>(job.seconds);
  for (unsigned slot = 0; slot < job.depth; ++slot)
    pending.push_back(start(slot));
  std::uint64_t done = 0;
  const auto finish = [&](unsigned slot) {
    if (files.wait(pending[slot]) != static_cast<std::int64_t>(job.bytes)) fail("a read failed");
    ++done;
  };
  while (Clock::now() < end) {
    const unsigned slot = files.wait_any(pending.data(), job.depth);
    finish(slot);
    pending[slot] = start(slot);
  }
  for (unsigned slot = 0; slot < job.depth; ++slot)
    finish(slot);
  const std::chrono::duration<double> elapsed = Clock::now() - begin;
  files.close(file);
  return static_cast<double>(done * job.bytes) / elapsed.count();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) {
    std::cerr << "usage: bench_cold_reads FILE sequential|random BYTES DEPTH SECONDS\n";
    return 2;
  }
  const Job job{argv[1], std::string(argv[2]) == "random", std::stoul(argv[3]),
                static_cast<unsigned>(std::stoul(argv[4])), std::stod(argv[5])};
  Runtime runtime;
  const Buffer buffer = runtime.allocate(job.bytes * job.depth);
  runtime.run([&](DeviceThread& self) {
    if (self.index != 0) return;
    std::cout << bytes_per_second(self, job, buffer.as<char>()) << std::endl;
  });
}
