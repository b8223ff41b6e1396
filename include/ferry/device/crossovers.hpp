// The numbers that placement `automatic` decides by; plain data, the same for all groups.
#pragma once

#include <cstdint>

#include <ferry/device/platform.hpp>

namespace ferry::device {

// The call size in bytes from which a placement is faster than `compute`. The built-in numbers were
// measured on two CPUs, with pages of 64 KiB, readahead, and the file in the kernel's page cache
// (lab/micro/placements.cpp); a profile measured on the machine itself is better.
struct Crossovers {
  static constexpr std::uint64_t never = ~std::uint64_t{0};
  // The host, for absent pages. A random read would fill a whole page for a part of it; one that
  // continues the last shares its fills with its neighbours.
  std::uint64_t host_read_bytes_min = 0;
  std::uint64_t host_stream_read_bytes_min = 64 << 10;
  // Where a flush follows soon (1.6 times at 32 KiB). Without one, the cache is faster at any size
  // (2 to 3 times).
  std::uint64_t host_write_bytes_min = 16 << 10;
  // A service, through the cache.
  std::uint64_t service_read_bytes_min = never;
  std::uint64_t service_write_bytes_min = never;
  // How often a page is read past the cache, at most, before it is brought in.
  std::uint32_t bypasses_max = 8;
};

// Remembers pages read past the cache. A table of counters by hash; two pages that share one
// displace each other. Null without a cache.
struct BypassTable {
  std::uint32_t* entries = nullptr;  // 24 bits of the page's hash, 8 bits of count
  std::uint32_t mask = 0;            // a power of two of entries, less one
};

// A page's entry: its tag above, its count below.
constexpr std::uint32_t bypass_count_bits = 8;
constexpr std::uint32_t bypass_count_mask = (1U << bypass_count_bits) - 1;
FERRY_DEVICE inline std::uint32_t bypass_tag(std::uint64_t page_hash) {
  return static_cast<std::uint32_t>(page_hash >> 32) << bypass_count_bits;
}

// Counts one more read of the page past the cache. Returns true for the `limit`-th, and restarts
// the count.
FERRY_DEVICE inline bool count_bypass(const BypassTable& table, std::uint64_t page_hash,
                                      std::uint32_t limit) {
  DeviceRef<std::uint32_t> word(table.entries[page_hash & table.mask]);
  const std::uint32_t tag = bypass_tag(page_hash);
  const std::uint32_t seen = word.load(relaxed);
  // Two simultaneous counts may lose one: the page comes a read later.
  const std::uint32_t count =
      (seen & ~bypass_count_mask) == tag ? (seen & bypass_count_mask) + 1 : 1;
  word.store(count < limit ? tag | count : 0, relaxed);
  return count >= limit;
}

// Restarts the page's count.
FERRY_DEVICE inline void forget_bypasses(const BypassTable& table, std::uint64_t page_hash) {
  DeviceRef<std::uint32_t> word(table.entries[page_hash & table.mask]);
  if ((word.load(relaxed) & ~bypass_count_mask) == bypass_tag(page_hash)) word.store(0, relaxed);
}

}  // namespace ferry::device
