// The pieces of a transfer: where each lies in the file and in memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ferry::hdf5 {

struct ReadPiece {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::byte* data = nullptr;
  std::uint64_t end() const { return offset + bytes; }
};

struct WritePiece {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  const std::byte* data = nullptr;
  std::uint64_t end() const { return offset + bytes; }
};

}  // namespace ferry::hdf5
