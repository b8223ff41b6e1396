// What byte swapping costs: beside memcpy, and as a share of the time of writing one rank's data.
//
//   bench_byte_swap FOLDER     writes and removes a file of 256 MiB there
//
// Prints one JSON object per line. "write" copies each piece of 4 MiB into a buffer and writes it,
// and fsyncs at the end; "write swapped" swaps while it copies; both in the order A B B A.
#include "base/byte_swap.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <ferry/byte_order.hpp>

#include "micro/memory.hpp"

namespace {

using namespace ferry;
using namespace ferry::benchmarks;

constexpr std::size_t piece_bytes = 4 << 20;
constexpr std::size_t file_bytes = 256 << 20;
constexpr int pair_count = 20;

template <class Work>
double nanoseconds(Work&& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<long>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

void copies(const HugeMemory& from, const HugeMemory& to) {
  for (const std::size_t bytes : {std::size_t{256} << 10, piece_bytes, std::size_t{64} << 20}) {
    const std::size_t times = file_bytes / bytes;
    for (const std::size_t element : {2U, 4U, 8U, 16U}) {
      std::vector<double> plain;
      std::vector<std::vector<double>> swapped(byte_swaps().size());
      for (int pair = 0; pair < pair_count; ++pair) {
        plain.push_back(nanoseconds([&] {
          for (std::size_t i = 0; i < times; ++i)
            library_copy(to.data(), from.data(), bytes);
        }));
        for (std::size_t way = 0; way < swapped.size(); ++way) {
          swapped[way].push_back(nanoseconds([&] {
            for (std::size_t i = 0; i < times; ++i)
              byte_swaps()[way].swap(reinterpret_cast<std::byte*>(to.data()),
                                     reinterpret_cast<const std::byte*>(from.data()), bytes,
                                     element);
          }));
        }
      }
      nlohmann::json line{{"measure", "copy"}, {"bytes", bytes}, {"element_bytes", element}};
      const double gigabytes = static_cast<double>(file_bytes) / 1e9;
      line["memcpy_gb_per_s"] = gigabytes / (median(plain) * 1e-9);
      for (std::size_t way = 0; way < swapped.size(); ++way)
        line[std::string(byte_swaps()[way].name) + "_gb_per_s"] =
            gigabytes / (median(swapped[way]) * 1e-9);
      std::cout << line.dump() << '\n';
    }
  }
}

double write_file(const std::string& path, const HugeMemory& from, const HugeMemory& to,
                  bool swaps) {
  const int file = open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0600);
  const double taken = nanoseconds([&] {
    for (std::size_t at = 0; at < file_bytes; at += piece_bytes) {
      const char* piece = from.data() + at % (std::size_t{64} << 20);
      if (swaps) {
        copy_swapped(to.data(), piece, piece_bytes, 8);
      } else {
        library_copy(to.data(), piece, piece_bytes);
      }
      if (pwrite(file, to.data(), piece_bytes, static_cast<off_t>(at)) !=
          static_cast<ssize_t>(piece_bytes)) {
        std::cerr << "bench_byte_swap: cannot write " << path << '\n';
        std::exit(1);
      }
    }
    if (fsync(file) != 0) std::exit(1);
  });
  close(file);
  unlink(path.c_str());
  return taken;
}

void writes(const std::string& folder, const HugeMemory& from, const HugeMemory& to) {
  const std::string path = folder + "/bench_byte_swap.tmp";
  write_file(path, from, to, false);
  nlohmann::json line{{"measure", "write swapped, beside write"}, {"unit", "bytes/s"}};
  std::vector<double> ratios;
  for (int pair = 0; pair < pair_count; ++pair) {
    std::array<double, 2> taken{};
    for (const int turn : {0, 1}) {
      const bool swaps = (turn + pair) % 2 == 1;
      taken[swaps ? 1 : 0] =
          static_cast<double>(file_bytes) * 1e9 / write_file(path, from, to, swaps);
    }
    ratios.push_back(taken[1] / taken[0]);
    line["pairs"].push_back({{"ours", taken[1]}, {"baseline", taken[0]}});
  }
  line["ratio_median"] = median(ratios);
  std::cout << line.dump() << '\n';
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: bench_byte_swap FOLDER\n";
    return 2;
  }
  const HugeMemory from(64 << 20);
  const HugeMemory to(64 << 20);
  copies(from, to);
  writes(argv[1], from, to);
}
