// Converts between big-endian and little-endian data.
//
// MPI's "external32" is ByteOrder::big with the element sizes that MPI defines for it. All
// functions are thread-safe.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

namespace ferry {

enum class ByteOrder : std::uint8_t { native, little, big };

// Data of this order must be swapped on this machine.
constexpr bool is_foreign(ByteOrder order) {
  if (order == ByteOrder::little) return std::endian::native != std::endian::little;
  if (order == ByteOrder::big) return std::endian::native != std::endian::big;
  return false;
}

// Reverses the bytes of each element, in place, at any alignment. Elements have 1 (nothing to do),
// 2, 4, 8 or 16 bytes, and `bytes` is a multiple of that; else ferry::Error (EINVAL), and nothing
// changes.
void swap_bytes(void* data, std::size_t bytes, std::size_t element_bytes);
// The same while copying. Source and target must be identical or disjoint.
void copy_swapped(void* to, const void* from, std::size_t bytes, std::size_t element_bytes);

}  // namespace ferry
