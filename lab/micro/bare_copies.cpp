// The cost of moving a cached file into resident memory, by the kernel's methods. A library cannot
// map files: truncating one meanwhile ends the process.
#include <algorithm>
#include <atomic>
#include <functional>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "micro/memory.hpp"
#include "micro/pairs.hpp"
#include "micro/subcommand.hpp"

namespace {

using namespace ferry::benchmarks;

constexpr std::size_t read_bytes = 256 << 10;
constexpr std::size_t mapped_bytes = 1 << 20;

// Hands out pieces to the threads; the seconds until all are done.
double run(std::size_t bytes, std::size_t piece, std::uint64_t threads,
           const std::function<void(std::size_t at, std::size_t count)>& copy) {
  std::atomic<std::size_t> next{0};
  return seconds_on_threads(threads, [&](std::uint64_t) {
    for (std::size_t at = next.fetch_add(piece); at < bytes; at = next.fetch_add(piece))
      copy(at, std::min(piece, bytes - at));
  });
}

// Without `to` only the mapping is made.
void map_and_copy(int fd, Copy copy, char* to, std::size_t at, std::size_t count) {
  void* mapped = mmap(nullptr, count, PROT_READ, MAP_SHARED, fd, static_cast<off_t>(at));
  if (mapped == MAP_FAILED || madvise(mapped, count, MADV_POPULATE_READ) != 0) fail("cannot map");
  if (to != nullptr) copy(to, mapped, count);
  munmap(mapped, count);
}

void bare_copies(const BenchmarkOptions& options) {
  const int fd = opened(open(options.path.c_str(), O_RDONLY | O_CLOEXEC), options.path);
  struct stat status {};
  check(fstat(fd, &status), 0);
  const std::size_t bytes = static_cast<std::size_t>(status.st_size) / mapped_bytes * mapped_bytes;
  const Copy copy = streaming_copy();
  const HugeMemory from(bytes);
  const HugeMemory to(bytes);
  const auto read_piece = [&](std::size_t at, std::size_t count) {
    check(pread(fd, to.data() + at, count, static_cast<off_t>(at)), count);
  };
  run(bytes, read_bytes, 1, read_piece);
  std::vector<double> reads, mapped, mapping, memory;
  for (std::uint64_t repeat = 0; repeat < options.repeats; ++repeat) {
    reads.push_back(run(bytes, read_bytes, options.threads, read_piece));
    mapped.push_back(run(bytes, mapped_bytes, options.threads, [&](std::size_t at, auto count) {
      map_and_copy(fd, copy, to.data() + at, at, count);
    }));
    mapping.push_back(run(bytes, mapped_bytes, options.threads, [&](std::size_t at, auto count) {
      map_and_copy(fd, copy, nullptr, at, count);
    }));
    memory.push_back(run(bytes, mapped_bytes, options.threads, [&](std::size_t at, auto count) {
      copy(to.data() + at, from.data() + at, count);
    }));
  }
  report_figure("preads of 256 KiB", "s", reads);
  report_figure("mapping and streaming stores", "s", mapped);
  report_figure("mapping alone", "s", mapping);
  report_figure("memory by streaming stores", "s", memory);
}

const Subcommand registered("bare-copies", "FILE --threads --repeats",
                            "bare ways from the page cache into memory", bare_copies);

}  // namespace
