// What it takes to bring a file from the page cache into memory that is there already, by the ways
// that the kernel offers: bench_bare_copies FILE THREADS REPEATS prints a line for each repeat with
// the seconds of
//   1. preadv, pieces of 256 KiB
//   2. a mapping of each piece of 1 MiB, its pages brought in at once, copied past the core's
//   caches
//   3. the mapping alone, without a copy
//   4. a copy past the core's caches from memory to memory
// The second is no way for a library: a file that is truncated meanwhile ends the process.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "memory.hpp"

namespace {

using ferry::benchmarks::Copy;
using ferry::benchmarks::HugeMemory;

constexpr std::size_t read_bytes = 256 << 10;
constexpr std::size_t mapped_bytes = 1 << 20;

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

// Hands out pieces to the threads; the seconds until all are done.
double run(std::size_t bytes, std::size_t piece, int threads,
           const std::function<void(std::size_t at, std::size_t count)>& copy) {
  const auto begin = std::chrono::steady_clock::now();
  std::atomic<std::size_t> next{0};
  std::vector<std::thread> others;
  for (int i = 0; i < threads; ++i) {
    others.emplace_back([&] {
      for (std::size_t at = next.fetch_add(piece); at < bytes; at = next.fetch_add(piece))
        copy(at, std::min(piece, bytes - at));
    });
  }
  for (std::thread& other : others)
    other.join();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

void read_all(int fd, char* to, std::size_t at, std::size_t count) {
  while (count > 0) {
    const auto got = pread(fd, to, count, static_cast<off_t>(at));
    if (got <= 0) fail("pread");
    to += got;
    at += static_cast<std::size_t>(got);
    count -= static_cast<std::size_t>(got);
  }
}

// Without `to` only the mapping is made.
void map_and_copy(int fd, Copy copy, char* to, std::size_t at, std::size_t count) {
  void* mapped = mmap(nullptr, count, PROT_READ, MAP_SHARED, fd, static_cast<off_t>(at));
  if (mapped == MAP_FAILED || madvise(mapped, count, MADV_POPULATE_READ) != 0) fail("mmap");
  if (to != nullptr) copy(to, mapped, count);
  munmap(mapped, count);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: bench_bare_copies FILE THREADS REPEATS\n");
    return 2;
  }
  const int fd = open(argv[1], O_RDONLY | O_CLOEXEC);
  struct stat status {};
  if (fd < 0 || fstat(fd, &status) != 0) fail(argv[1]);
  const std::size_t bytes = static_cast<std::size_t>(status.st_size) / mapped_bytes * mapped_bytes;
  const int threads = std::atoi(argv[2]);
  const Copy copy = ferry::benchmarks::streaming_copy();
  const HugeMemory from(bytes);
  const HugeMemory to(bytes);
  read_all(fd, to.data(), 0, bytes);
  for (int repeat = 0; repeat < std::atoi(argv[3]); ++repeat) {
    const double reads = run(bytes, read_bytes, threads, [&](std::size_t at, std::size_t count) {
      read_all(fd, to.data() + at, at, count);
    });
    const double mapped = run(bytes, mapped_bytes, threads, [&](std::size_t at, std::size_t count) {
      map_and_copy(fd, copy, to.data() + at, at, count);
    });
    const double mapping =
        run(bytes, mapped_bytes, threads,
            [&](std::size_t at, std::size_t count) { map_and_copy(fd, copy, nullptr, at, count); });
    const double memory = run(bytes, mapped_bytes, threads, [&](std::size_t at, std::size_t count) {
      copy(to.data() + at, from.data() + at, count);
    });
    std::printf("%.6f %.6f %.6f %.6f\n", reads, mapped, mapping, memory);
  }
  return 0;
}
