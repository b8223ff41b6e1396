// The irreducible work of reading many small files: open, read and close, by plain system calls of
// a few threads, each file into memory of its own that is there already. bench_bare_files FOLDER
// COUNT THREADS REPEATS reads FOLDER/small0 and so on, and prints the seconds of each repeat.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "memory.hpp"

namespace {

constexpr std::size_t file_bytes_max = 16 << 10;

void read_every(const std::vector<std::string>& names, char* memory, std::size_t first,
                std::size_t step) {
  for (std::size_t i = first; i < names.size(); i += step) {
    const int fd = open(names[i].c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0 || read(fd, memory + i * file_bytes_max, file_bytes_max) < 0) {
      std::perror(names[i].c_str());
      std::exit(1);
    }
    close(fd);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fprintf(stderr, "usage: bench_bare_files FOLDER COUNT THREADS REPEATS\n");
    return 2;
  }
  std::vector<std::string> names;
  for (int i = 0; i < std::atoi(argv[2]); ++i)
    names.push_back(std::string(argv[1]) + "/small" + std::to_string(i));
  const ferry::benchmarks::HugeMemory memory(names.size() * file_bytes_max);
  const auto threads = static_cast<std::size_t>(std::atoi(argv[3]));
  for (int repeat = 0; repeat < std::atoi(argv[4]); ++repeat) {
    const auto begin = std::chrono::steady_clock::now();
    std::vector<std::thread> others;
    for (std::size_t i = 1; i < threads; ++i)
      others.emplace_back([&, i] { read_every(names, memory.data(), i, threads); });
    read_every(names, memory.data(), 0, threads);
    for (std::thread& other : others)
      other.join();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    std::printf("%.6f\n", took.count());
  }
  return 0;
}
