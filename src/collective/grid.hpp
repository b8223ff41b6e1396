// Lists of extents of N-dimensional arrays.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include <ferry/typemap.hpp>

namespace ferry::collective {

// One dimension of an array: how many elements it has, and which of them belong to the list, as
// ranges (first, count) in growing order.
struct Dimension {
  std::int64_t size = 0;
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
};

// Adds an extent to a list; one that continues the last becomes part of it.
inline void append(std::vector<Extent>& extents, const Extent& extent) {
  if (!extents.empty() && extents.back().offset + extents.back().bytes == extent.offset) {
    extents.back().bytes += extent.bytes;
  } else {
    extents.push_back(extent);
  }
}

// The elements that belong to the list in all dimensions, the last of which lies together.
std::vector<Extent> grid(const std::vector<Dimension>& dimensions, std::int64_t element_bytes);

}  // namespace ferry::collective
