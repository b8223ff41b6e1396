// Lists of extents of N-dimensional arrays.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include <ferry/typemap.hpp>

namespace ferry::collective {

// One dimension of an array: its number of elements, and the listed ones as ascending ranges
// (first, count).
struct Dimension {
  std::int64_t size = 0;
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges;
};

// Appends an extent to a list, merged with the last if contiguous.
inline void append(std::vector<Extent>& extents, const Extent& extent) {
  if (!extents.empty() && extents.back().offset + extents.back().bytes == extent.offset) {
    extents.back().bytes += extent.bytes;
  } else {
    extents.push_back(extent);
  }
}

// The elements listed in all dimensions; the last dimension is contiguous.
std::vector<Extent> grid(const std::vector<Dimension>& dimensions, std::int64_t element_bytes);

}  // namespace ferry::collective
