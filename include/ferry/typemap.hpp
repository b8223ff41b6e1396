// Type maps: the positions of a stream's bytes in a file (a file view) or in memory. The term is
// MPI's, but this header does not need MPI.
//
//   TypeMap::strided(100, 4096, 65536)        // 100 blocks of 4 KiB, one every 64 KiB
//   TypeMap::subarray(sizes, subsizes, starts, sizeof(double))
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ferry::collective {

// Contiguous bytes. In memory, but not in a file, they may precede the origin.
struct Extent {
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
  bool operator==(const Extent&) const = default;
};

// A list of extents in stream order, repeated every period_bytes(). Immutable, hence thread-safe.
// The factories throw ferry::Error (EINVAL) for sizes that are negative, too large or inconsistent.
class TypeMap {
 public:
  // All bytes: the default view.
  TypeMap() : TypeMap({Extent{0, 1}}, 1) {}
  // `bytes` bytes and nothing else.
  static TypeMap contiguous(std::int64_t bytes);
  // `count` blocks, `stride_bytes` apart from start to start. A gap also follows the last.
  static TypeMap strided(std::int64_t count, std::int64_t block_bytes, std::int64_t stride_bytes);
  // The block of `subsizes` elements at `starts` in an array of `sizes`, in C order: the last
  // dimension is contiguous.
  static TypeMap subarray(std::span<const std::int64_t> sizes,
                          std::span<const std::int64_t> subsizes,
                          std::span<const std::int64_t> starts, std::int64_t element_bytes);
  // Any list. Drops empty extents and joins neighbours. period_bytes < 0: up to the end of the
  // extent that reaches furthest.
  static TypeMap list(std::span<const Extent> extents, std::int64_t period_bytes = -1);

  std::span<const Extent> extents() const { return extents_; }
  // Bytes of data in one period.
  std::int64_t data_bytes() const { return before_.back(); }
  std::int64_t period_bytes() const { return period_bytes_; }
  // The stream is contiguous, at any length.
  bool is_dense() const { return extents_.size() == 1 && extents_[0].bytes == period_bytes_; }
  // A file view: extents ascend without overlap, also across the end of the period.
  bool is_file_view() const;
  // One copy of it does, whatever its period.
  bool ascends() const;

  // Bytes of the stream before `position`. Only for file views.
  std::int64_t stream_at(std::int64_t position) const;
  // The position of byte `stream`. Only if there is data.
  std::int64_t position_of(std::int64_t stream) const;

 private:
  friend class Cursor;
  TypeMap(std::vector<Extent> extents, std::int64_t period_bytes);
  std::size_t extent_of(std::int64_t stream) const;

  std::vector<Extent> extents_;
  std::vector<std::int64_t> before_;  // data before each extent, and the total at the end
  std::int64_t period_bytes_ = 0;
};

}  // namespace ferry::collective
