// The pieces of a transfer: where each lies in the file and in memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ferry::hdf5 {

template <class Byte>
struct FilePiece {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  Byte* data = nullptr;
  std::uint64_t end() const { return offset + bytes; }
};

using ReadPiece = FilePiece<std::byte>;
using WritePiece = FilePiece<const std::byte>;

}  // namespace ferry::hdf5
