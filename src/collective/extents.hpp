// Extents of type maps and of N-dimensional arrays.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include <ferry/typemap.hpp>

namespace ferry::collective {

// Walks the stream of a type map piece by piece.
// The map must outlive it and hold data.
class Cursor {
 public:
  Cursor(const TypeMap& map, std::int64_t origin, std::int64_t stream)
      : map_(map), origin_(origin), dense_(map.is_dense()) {
    const std::int64_t period = stream / map.data_bytes();
    origin_ += period * map.period_bytes();
    const std::int64_t rest = stream - period * map.data_bytes();
    at_ = map.extent_of(rest);
    inside_ = rest - map.before_[at_];
  }

  // The next contiguous bytes, at most bytes_max (> 0).
  Extent next(std::int64_t bytes_max) {
    const Extent& extent = map_.extents_[at_];
    Extent piece{origin_ + extent.offset + inside_, bytes_max};
    if (dense_) {
      origin_ += bytes_max;
      return piece;
    }
    piece.bytes = std::min(bytes_max, extent.bytes - inside_);
    inside_ += piece.bytes;
    if (inside_ == extent.bytes) {
      inside_ = 0;
      if (++at_ == map_.extents_.size()) {
        at_ = 0;
        origin_ += map_.period_bytes_;
      }
    }
    return piece;
  }

 private:
  const TypeMap& map_;
  std::int64_t origin_;
  std::size_t at_ = 0;
  std::int64_t inside_ = 0;
  bool dense_;
};

// The end of the extent that reaches furthest.
inline std::int64_t reach_of(const TypeMap& map) {
  std::int64_t reach = 0;
  for (const Extent& extent : map.extents())
    reach = std::max(reach, extent.offset + extent.bytes);
  return reach;
}

// The first byte of the stream that lies at `position` or behind it, of a map with data that need
// not be a file view; -1: there is none.
inline std::int64_t first_stream_at(const TypeMap& map, std::int64_t position) {
  const std::int64_t behind = position - reach_of(map);
  if (behind >= 0 && map.period_bytes() == 0) return -1;
  const std::int64_t copy = behind >= 0 ? behind / map.period_bytes() + 1 : 0;
  std::int64_t stream = copy * map.data_bytes();
  position -= copy * map.period_bytes();
  for (const Extent& extent : map.extents()) {
    if (extent.offset + extent.bytes > position)
      return stream + std::max<std::int64_t>(0, position - extent.offset);
    stream += extent.bytes;
  }
  return stream;  // not reached
}

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
