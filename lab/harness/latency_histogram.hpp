// Latencies of single calls, counted in buckets; for host threads and kernels.
//
// Buckets are log-linear, as in HdrHistogram (Tene) and fio: below 128 ns one for each nanosecond,
// above that 64 for each power of two. A percentile is the middle of its bucket, hence off by at
// most 1/128. The memory does not depend on how many calls are counted, and histograms of threads
// and repeats add up.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include <ferry/device/platform.hpp>

namespace ferry::bench {

// Whether a call is timed: one in each mask + 1, a power of two, the first of all included. Which
// one differs from stretch to stretch: calls at even distances may all begin a page.
FERRY_DEVICE inline bool is_timed_call(std::uint64_t call, std::uint64_t mask) {
  const std::uint64_t drawn = (call & ~mask) * 0x9e3779b97f4a7c15 >> 32;
  return ((call ^ drawn) & mask) == 0;
}

struct LatencyHistogram {
  static constexpr unsigned bits = 6;
  static constexpr unsigned per_power = 1U << bits;
  static constexpr unsigned buckets = (64 - bits + 1) * per_power;

  std::uint64_t calls[buckets] = {};
  std::uint64_t longest_ns = 0;

  FERRY_DEVICE static unsigned bucket_of(std::uint64_t ns) {
    if (ns < 2 * per_power) return static_cast<unsigned>(ns);
#if defined(__CUDA_ARCH__)
    const auto power = 63U - static_cast<unsigned>(__clzll(static_cast<long long>(ns)));
#else
    const auto power = static_cast<unsigned>(std::bit_width(ns)) - 1;
#endif
    const unsigned shift = power - bits;
    return shift * per_power + static_cast<unsigned>(ns >> shift);
  }
  static std::uint64_t width_of(unsigned bucket) {
    return bucket < 2 * per_power ? 1 : std::uint64_t{1} << (bucket / per_power - 1);
  }
  // The least latency that falls into it.
  static std::uint64_t begin_of(unsigned bucket) {
    return bucket < 2 * per_power ? bucket : width_of(bucket) * (per_power + bucket % per_power);
  }

  FERRY_DEVICE void note(std::uint64_t ns) {
    ++calls[bucket_of(ns)];
    if (ns > longest_ns) longest_ns = ns;
  }

  void add(const LatencyHistogram& more) {
    for (unsigned i = 0; i < buckets; ++i)
      calls[i] += more.calls[i];
    longest_ns = std::max(longest_ns, more.longest_ns);
  }

  std::uint64_t samples() const {
    std::uint64_t sum = 0;
    for (const std::uint64_t count : calls)
      sum += count;
    return sum;
  }

  // Nearest rank: what at least so many of 1000 calls do not exceed. There must be calls.
  std::uint64_t percentile(unsigned permille) const {
    const std::uint64_t rank = std::max<std::uint64_t>((samples() * permille + 999) / 1000, 1);
    unsigned bucket = 0;
    for (std::uint64_t seen = calls[0]; seen < rank; seen += calls[++bucket]) {
    }
    return std::min(begin_of(bucket) + width_of(bucket) / 2, longest_ns);
  }
};

}  // namespace ferry::bench
