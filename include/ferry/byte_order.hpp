// Byte order: turning big-endian data into little-endian data and back.
//
// MPI's "external32" is big-endian, so it is what ByteOrder::big stands for with elements of MPI's
// sizes there. All functions may be called by any number of threads.
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

// Reverses the bytes of each element. Elements have 1 (nothing to do), 2, 4, 8 or 16 bytes, and
// `bytes` is a multiple of that; else ferry::Error (EINVAL), and nothing is changed. No alignment
// is needed.
void swap_bytes(void* data, std::size_t bytes, std::size_t element_bytes);
// The same while copying. The two may be the same memory, or lie apart; not overlap.
void copy_swapped(void* to, const void* from, std::size_t bytes, std::size_t element_bytes);

}  // namespace ferry
