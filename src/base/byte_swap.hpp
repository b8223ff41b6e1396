// Methods of reversing elements' bytes, for byte_order.hpp and tests of each.
#pragma once

#include <cstddef>
#include <span>

namespace ferry {

// Copies `bytes`, a multiple of element_bytes (2, 4, 8 or 16), in place or to disjoint memory.
using ByteSwap = void (*)(std::byte* to, const std::byte* from, std::size_t bytes,
                          std::size_t element_bytes);

struct NamedByteSwap {
  const char* name;
  ByteSwap swap;
};

// The supported ones, fastest last; the first is plain C++.
std::span<const NamedByteSwap> byte_swaps();

}  // namespace ferry
