// The minimal work to bring files into resident memory.
//
// bare-files: many small files, FOLDER/small0 and so on, by plain system calls of a few threads:
// open, read and close, each file into its own memory. To split the time, `open` does not read,
// `same-memory` reads all files of a thread into the same 16 KiB, and `memory` opens nothing and
// only writes the bytes to memory, by plain stores.
//
// bare-copies: a cached file by the kernel's methods. A library cannot map files: truncating one
// meanwhile ends the process.
#include <atomic>
#include <cstring>

#include <sys/mman.h>

#include "micro/device_file.hpp"
#include "micro/memory.hpp"

namespace {

using namespace ferry::benchmarks;

constexpr std::size_t file_bytes_max = 16 << 10;
constexpr std::size_t read_bytes = 256 << 10;
constexpr std::size_t mapped_bytes = 1 << 20;

void read_every(const std::vector<std::string>& names, char* memory, std::size_t first,
                std::size_t step, const std::string& part) {
  const std::vector<char> source(file_bytes_max, 'x');
  for (std::size_t i = first; i < names.size(); i += step) {
    if (part == "memory") {
      std::memcpy(memory + i * file_bytes_max, source.data(), file_bytes_max);
      continue;
    }
    char* to = memory + (part == "same-memory" ? first : i) * file_bytes_max;
    const int fd = opened(open(names[i].c_str(), O_RDONLY | O_CLOEXEC), names[i]);
    if (part != "open" && read(fd, to, file_bytes_max) < 0) fail("cannot read " + names[i]);
    close(fd);
  }
}

void bare_files(const BenchmarkOptions& options) {
  std::vector<std::string> names;
  for (std::uint64_t i = 0; i < options.count; ++i)
    names.push_back(options.path + "/small" + std::to_string(i));
  const HugeMemory memory(names.size() * file_bytes_max);
  measure_figure("small files, " + options.kind, "s", options.repeats, [&] {
    return seconds_on_threads(options.threads, [&](std::uint64_t i) {
      read_every(names, memory.data(), i, options.threads, options.kind);
    });
  });
}

using PieceCopy = std::function<void(std::size_t at, std::size_t count)>;

// Hands out pieces to the threads; the seconds until all are done.
double seconds_for(std::size_t bytes, std::size_t piece, std::uint64_t threads,
                   const PieceCopy& copy) {
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
  const KernelFile file(options.path);
  const std::size_t bytes = file.size_bytes() / mapped_bytes * mapped_bytes;
  const Copy copy = streaming_copy();
  const HugeMemory from(bytes);
  const HugeMemory to(bytes);
  struct Way {
    const char* name;
    std::size_t piece;
    PieceCopy copy;
    std::vector<double> seconds{};
  };
  Way ways[] = {
      {"preads of 256 KiB", read_bytes,
       [&](std::size_t at, std::size_t count) { file.read(to.data() + at, count, at); }},
      {"mapping and streaming stores", mapped_bytes,
       [&](std::size_t at, std::size_t count) {
         map_and_copy(file.number, copy, to.data() + at, at, count);
       }},
      {"mapping alone", mapped_bytes,
       [&](std::size_t at, std::size_t count) {
         map_and_copy(file.number, copy, nullptr, at, count);
       }},
      {"memory by streaming stores", mapped_bytes,
       [&](std::size_t at, std::size_t count) { copy(to.data() + at, from.data() + at, count); }}};
  seconds_for(bytes, read_bytes, 1, ways[0].copy);
  for (std::uint64_t repeat = 0; repeat < options.repeats; ++repeat) {
    for (Way& way : ways)
      way.seconds.push_back(seconds_for(bytes, way.piece, options.threads, way.copy));
  }
  for (const Way& way : ways)
    report_figure(way.name, "s", way.seconds);
}

const Subcommand for_files("bare-files",
                           "FOLDER all|open|same-memory|memory --count --threads --repeats",
                           "small files by bare system calls", bare_files);
const Subcommand for_copies("bare-copies", "FILE --threads --repeats",
                            "bare ways from the page cache into memory", bare_copies);

}  // namespace
