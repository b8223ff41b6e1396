// Type maps: where the bytes of a stream of data lie, in a file (a file view) or in memory. The
// term is MPI's; this header needs no MPI.
//
//   TypeMap::strided(100, 4096, 65536)        // 100 blocks of 4 KiB, one every 64 KiB
//   TypeMap::subarray(sizes, subsizes, starts, sizeof(double))
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ferry::collective {

// Bytes that lie together. May lie before the origin in memory, never in a file.
struct Extent {
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
  bool operator==(const Extent&) const = default;
};

// A list of extents, in the order in which the stream fills them, which repeats without end every
// period_bytes(). Immutable, so any number of threads may use it. The functions that make one throw
// ferry::Error (EINVAL) for sizes that are negative, too large or do not fit together.
class TypeMap {
 public:
  // All bytes: the view that a file has when it is opened.
  TypeMap() : TypeMap({Extent{0, 1}}, 1) {}
  // `bytes` bytes and nothing else.
  static TypeMap contiguous(std::int64_t bytes);
  // `count` blocks, each `stride_bytes` behind the one before. The last is followed by its gap too.
  static TypeMap strided(std::int64_t count, std::int64_t block_bytes, std::int64_t stride_bytes);
  // The block of `subsizes` elements at `starts` in an array of `sizes`. The last dimension is the
  // one that lies together, as in C.
  static TypeMap subarray(std::span<const std::int64_t> sizes,
                          std::span<const std::int64_t> subsizes,
                          std::span<const std::int64_t> starts, std::int64_t element_bytes);
  // Any list. Empty extents are dropped, neighbours are joined. period_bytes < 0: up to the end of
  // the extent that reaches furthest.
  static TypeMap list(std::span<const Extent> extents, std::int64_t period_bytes = -1);

  std::span<const Extent> extents() const { return extents_; }
  // Data in one period.
  std::int64_t data_bytes() const { return before_.back(); }
  std::int64_t period_bytes() const { return period_bytes_; }
  // The stream lies in one piece, however long it is.
  bool is_dense() const { return extents_.size() == 1 && extents_[0].bytes == period_bytes_; }
  // May be a file view: extents grow without overlap, within the period and across its end.
  bool is_file_view() const;

  // How many bytes of the stream lie before `position`. Only for file views.
  std::int64_t stream_at(std::int64_t position) const;
  // Where byte `stream` lies. Only where there is data.
  std::int64_t position_of(std::int64_t stream) const;

 private:
  friend class Cursor;
  TypeMap(std::vector<Extent> extents, std::int64_t period_bytes);
  std::size_t extent_of(std::int64_t stream) const;

  std::vector<Extent> extents_;
  std::vector<std::int64_t> before_;  // data before each extent, and all of it at the end
  std::int64_t period_bytes_ = 0;
};

}  // namespace ferry::collective
