// The cost of byte swapping compared with memcpy, by each method of this processor and each element
// size. `ferry study endian` measures the cost for files.
#include "base/byte_swap.hpp"

#include "micro/benchmark.hpp"
#include "micro/memory.hpp"

namespace {

using namespace ferry;
using namespace ferry::benchmarks;

constexpr std::size_t total_bytes = 256 << 20;
constexpr std::size_t largest_bytes = 64 << 20;

// Bytes per second of as many copies of `bytes` as make total_bytes.
template <class CopyOnce>
double speed_of(std::size_t bytes, CopyOnce copy) {
  const auto begin = Clock::now();
  for (std::size_t done = 0; done < total_bytes; done += bytes)
    copy();
  return static_cast<double>(total_bytes) / seconds_since(begin);
}

void measure_swaps(const BenchmarkOptions&) {
  const HugeMemory from(largest_bytes);
  const HugeMemory to(largest_bytes);
  for (const std::size_t bytes : {std::size_t{256} << 10, std::size_t{4} << 20, largest_bytes}) {
    for (const std::size_t element : {2U, 4U, 8U, 16U}) {
      for (const NamedByteSwap& way : byte_swaps()) {
        measure_pairs(
            std::to_string(bytes >> 10) + " KiB, elements of " + std::to_string(element) +
                " B: " + way.name + " / memcpy",
            "bytes/s",
            [&] {
              return speed_of(bytes, [&] {
                way.swap(reinterpret_cast<std::byte*>(to.data()),
                         reinterpret_cast<const std::byte*>(from.data()), bytes, element);
              });
            },
            [&] { return speed_of(bytes, [&] { library_copy(to.data(), from.data(), bytes); }); });
      }
    }
  }
}

const Subcommand registered("byte-swap", "", "swapping the bytes of elements beside memcpy",
                            measure_swaps);

}  // namespace
