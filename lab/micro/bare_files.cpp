// The irreducible work of reading many small files: open, read and close, by plain system calls of
// a few threads, each file into memory of its own that is there already. bench_bare_files FOLDER
// COUNT THREADS REPEATS reads FOLDER/small0 and so on, and prints the seconds of each repeat. A
// fifth argument leaves something away, to tell what takes the time: `open` does not read,
// `same-memory` reads all files of a thread into the same 16 KiB, `memory` opens nothing and writes
// the bytes to memory as the kernel does, by plain stores.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "memory.hpp"

namespace {

constexpr std::size_t file_bytes_max = 16 << 10;

enum class Part { all, open, same_memory, memory };

void read_every(const std::vector<std::string>& names, char* memory, std::size_t first,
                std::size_t step, Part part) {
  std::vector<char> source(file_bytes_max, 'x');
  for (std::size_t i = first; i < names.size(); i += step) {
    if (part == Part::memory) {
      std::memcpy(memory + i * file_bytes_max, source.data(), file_bytes_max);
      continue;
    }
    char* to = memory + (part == Part::same_memory ? first : i) * file_bytes_max;
    const int fd = open(names[i].c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0 || (part != Part::open && read(fd, to, file_bytes_max) < 0)) {
      std::perror(names[i].c_str());
      std::exit(1);
    }
    close(fd);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string word = argc == 6 ? argv[5] : "all";
  const std::array<const char*, 4> words{"all", "open", "same-memory", "memory"};
  const auto found = std::find(words.begin(), words.end(), word);
  if (argc < 5 || argc > 6 || found == words.end()) {
    std::fprintf(
        stderr, "usage: bench_bare_files FOLDER COUNT THREADS REPEATS [open|same-memory|memory]\n");
    return 2;
  }
  const auto part = static_cast<Part>(found - words.begin());
  const int count = std::atoi(argv[2]);
  std::vector<std::string> names;
  names.reserve(static_cast<std::size_t>(std::max(count, 0)));
  for (int i = 0; i < count; ++i)
    names.push_back(std::string(argv[1]) + "/small" + std::to_string(i));
  const ferry::benchmarks::HugeMemory memory(names.size() * file_bytes_max);
  const auto threads = static_cast<std::size_t>(std::atoi(argv[3]));
  for (int repeat = 0; repeat < std::atoi(argv[4]); ++repeat) {
    const auto begin = std::chrono::steady_clock::now();
    std::vector<std::thread> others;
    for (std::size_t i = 1; i < threads; ++i)
      others.emplace_back([&, i] { read_every(names, memory.data(), i, threads, part); });
    read_every(names, memory.data(), 0, threads, part);
    for (std::thread& other : others)
      other.join();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    std::printf("%.6f\n", took.count());
  }
  return 0;
}
