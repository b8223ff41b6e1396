// A transfer through the page cache, on the calling core: by placement `compute` for its own group,
// by a service for others.
#pragma once

#include <cerrno>
#include <cstdint>

#include <ferry/device/cache/cached_files.hpp>
#include <ferry/device/requester.hpp>

namespace ferry::device {

// One piece of a vectored call.
struct IoVector {
  void* base = nullptr;
  std::uint64_t bytes = 0;
};

// Linux's limit for one call, and Ferry's.
inline constexpr std::uint64_t transfer_bytes_max = 0x7ffff000;

FERRY_DEVICE inline std::uint64_t clamp_transfer(std::uint64_t bytes) {
  return bytes < transfer_bytes_max ? bytes : transfer_bytes_max;
}

// Moves `count` pieces in order, until one is moved only in part. `piece_of(i, out)` returns the
// i-th, or an error; `move(memory, bytes, offset)` moves it. Returns bytes, or the error if none
// moved.
template <class PieceOf, class Move>
FERRY_DEVICE std::int64_t move_pieces(int count, std::int64_t offset, PieceOf piece_of, Move move) {
  std::uint64_t total = 0;
  for (int i = 0; i < count; ++i) {
    IoVector piece;
    std::int64_t moved = piece_of(i, piece);
    const std::uint64_t bytes = clamp_transfer(total + clamp_transfer(piece.bytes)) - total;
    const std::int64_t at = offset + static_cast<std::int64_t>(total);
    if (moved == 0) moved = move(static_cast<unsigned char*>(piece.base), bytes, at);
    if (moved < 0) return total > 0 ? static_cast<std::int64_t>(total) : moved;
    total += static_cast<std::uint64_t>(moved);
    if (static_cast<std::uint64_t>(moved) < bytes) break;
  }
  return static_cast<std::int64_t>(total);
}

// The pieces' transfer by the leader alone.
template <class PieceOf>
FERRY_DEVICE std::int64_t cached_transfer(Requester& requester, TransferDirection direction,
                                          int file, int count, std::int64_t offset,
                                          PieceOf piece_of) {
  cache::CachedFiles files(requester);
  if (files.find(file) == nullptr) return -EBADF;
  return move_pieces(
      count, offset, piece_of,
      [&](unsigned char* memory, std::uint64_t bytes, std::int64_t at) -> std::int64_t {
        // For each piece: the handle may be closed meanwhile, and its entry reused.
        const cache::OpenFile* entry = files.find(file);
        if (entry == nullptr) return -EBADF;
        return direction == TransferDirection::read ? files.read(*entry, file, memory, bytes, at)
                                                    : files.write(*entry, memory, bytes, at);
      });
}

}  // namespace ferry::device
