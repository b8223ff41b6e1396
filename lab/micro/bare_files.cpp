// The minimal work to read many small files, FOLDER/small0 and so on: open, read and close, by
// plain system calls of a few threads, each file into its own resident memory. To split the time,
// `open` does not read, `same-memory` reads all files of a thread into the same 16 KiB, and
// `memory` opens nothing and only writes the bytes to memory, by plain stores.
#include <cstring>

#include <fcntl.h>
#include <unistd.h>

#include "micro/memory.hpp"
#include "micro/pairs.hpp"
#include "micro/subcommand.hpp"

namespace {

using namespace ferry::benchmarks;

constexpr std::size_t file_bytes_max = 16 << 10;

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
  std::vector<double> seconds;
  for (std::uint64_t repeat = 0; repeat < options.repeats; ++repeat) {
    seconds.push_back(seconds_on_threads(options.threads, [&](std::uint64_t i) {
      read_every(names, memory.data(), i, options.threads, options.kind);
    }));
  }
  report_figure("small files, " + options.kind, "s", seconds);
}

const Subcommand registered("bare-files",
                            "FOLDER all|open|same-memory|memory --count --threads --repeats",
                            "small files by bare system calls", bare_files);

}  // namespace
