// What byte swapping costs one rank: a collective::File with a big-endian view beside the same with
// the machine's own order, in the order A B B A, each with an fsync inside the time.
//
//   bench_representation FOLDER     writes and removes files of 256 MiB there; without mpiexec
//
// Prints JSON lines with the bandwidths of each pair, and of pairs of the machine's own order
// alone.
#include <chrono>
#include <cstdint>
#include <iostream>
#include <span>
#include <string>

#include <fcntl.h>
#include <unistd.h>

#include <ferry/collective.hpp>

#include "micro/memory.hpp"
#include "micro/pairs.hpp"

namespace {

using namespace ferry;
using namespace ferry::collective;

constexpr std::size_t file_bytes = 256 << 20;
constexpr int pair_count = 20;

double bytes_per_second(const std::string& path, const benchmarks::HugeMemory& memory,
                        ByteOrder order, bool reads) {
  File file(MPI_COMM_WORLD, path, O_CREAT | O_RDWR);
  file.set_view(0, TypeMap(), {order, 8});
  const auto data = std::as_writable_bytes(std::span(memory.data(), file_bytes));
  const auto begin = std::chrono::steady_clock::now();
  if (reads) {
    file.read_at_all(0, data);
  } else {
    file.write_at_all(0, data);
    file.sync();
  }
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
  file.close();
  if (!reads) unlink(path.c_str());
  return file_bytes / taken.count();
}

void measure(const char* name, const std::string& path, const benchmarks::HugeMemory& memory,
             bool reads) {
  const auto run = [&](ByteOrder order) {
    return [&, order] { return bytes_per_second(path, memory, order, reads); };
  };
  benchmarks::measure_pairs(name, "bytes/s", pair_count, run(ByteOrder::big),
                            run(ByteOrder::native));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: bench_representation FOLDER\n";
    return 2;
  }
  MPI_Init(nullptr, nullptr);
  const std::string path = std::string(argv[1]) + "/bench_representation.tmp";
  const benchmarks::HugeMemory memory(file_bytes);
  measure("write and fsync, swapped", path, memory, false);
  {
    File file(MPI_COMM_WORLD, path, O_CREAT | O_RDWR);
    file.write_at_all(0, std::as_bytes(std::span(memory.data(), file_bytes)));
    file.close();
  }
  measure("read from the page cache, swapped", path, memory, true);
  unlink(path.c_str());
  MPI_Finalize();
}
