// Random type maps, and the same written out byte by byte.
#pragma once

#include <cstdint>
#include <vector>

#include <ferry/typemap.hpp>

#include "support/depth.hpp"

namespace ferry::test {

// Which bytes belong to one period, in stream order.
struct FlatMap {
  std::vector<std::int64_t> bytes;
  std::int64_t period_bytes = 0;

  std::int64_t position_of(std::int64_t stream) const {
    const auto size = static_cast<std::int64_t>(bytes.size());
    return stream / size * period_bytes + bytes[static_cast<std::size_t>(stream % size)];
  }
  collective::TypeMap map() const {
    std::vector<collective::Extent> extents;
    for (const std::int64_t at : bytes)
      extents.push_back({at, 1});
    return collective::TypeMap::list(extents, period_bytes);
  }
};

// Non-overlapping file views, one for each of `owners`; some bytes may have no owner, and some
// owners no bytes.
inline std::vector<FlatMap> random_partition(Random& random, std::size_t owners) {
  std::vector<FlatMap> maps(owners);
  const std::uint64_t longest = random.pick(std::vector<std::uint64_t>{1, 3, 40, 700});
  const std::uint64_t pieces = random.between(1, 40);
  std::int64_t at = 0;
  for (std::uint64_t i = 0; i < pieces; ++i) {
    const auto length = static_cast<std::int64_t>(random.between(1, longest));
    const std::uint64_t owner = random.below(owners + 1);
    if (owner < owners)
      for (std::int64_t b = 0; b < length; ++b)
        maps[owner].bytes.push_back(at + b);
    at += length;
  }
  for (FlatMap& map : maps)
    map.period_bytes = at;
  return maps;
}

inline FlatMap random_flat_map(Random& random) {
  return random_partition(random, 1).front();
}

// A piece of memory that is filled out of order and with gaps.
inline FlatMap random_memory(Random& random) {
  FlatMap map = random_flat_map(random);
  if (map.bytes.empty()) map.bytes.push_back(0);
  if (random.one_in(2)) random.shuffle(map.bytes);
  return map;
}

}  // namespace ferry::test
