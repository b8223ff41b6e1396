#include "bulk/routing.hpp"

#include <algorithm>
#include <cerrno>
#include <string>

#include "base/cpus.hpp"
#include "bulk/request.hpp"

namespace ferry::bulk {
namespace {

// lab/micro/bulk_transfers.py sweeps around these.
constexpr std::uint64_t task_bytes_default = 256 << 10;
constexpr unsigned depth_default = 8;
constexpr unsigned workers_max = 64;
constexpr unsigned depth_max = 64;
constexpr std::uint64_t task_bytes_max = 64 << 20;

bool is_aligned(const Piece& piece) {
  const std::uint64_t all =
      piece.offset | piece.bytes |
      static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(piece.data));
  return all % piece_alignment_bytes == 0;
}

Way past_the_cache(const Piece& piece) {
  if (piece.file->direct() == nullptr) return Way::cached;
  // Unaligned writes need the surrounding blocks; the storage sends them through the page cache.
  const bool edges =
      piece.offset % piece_alignment_bytes != 0 || piece.bytes % piece_alignment_bytes != 0;
  // Slots are aligned.
  if (piece.gpu != nullptr) return piece.direction == Direction::write ? Way::direct : Way::staged;
  if (is_aligned(piece) || (piece.direction == Direction::write && edges)) return Way::direct;
  return Way::staged;
}

}  // namespace

Way choose_way(const Piece& piece, Route route) {
  const bool pinned_direct = route == Route::direct || piece.file->always_direct();
  if (piece.direction == Direction::write) {
    // Two descriptors of one file would not take turns, so only a file opened for it writes
    // directly.
    if (piece.file->always_direct()) return past_the_cache(piece);
    // A server wants many requests in flight; the kernel's page cache takes one at a time.
    return piece.file->may_hang() ? Way::cached : Way::copy;
  }
  if (pinned_direct) return past_the_cache(piece);
  // Every other file would miss a worker that waits for it; the storage has threads for that.
  if (piece.file->may_hang()) return Way::cached;
  const auto resident = piece.file->resident_bytes(piece.offset, piece.bytes);
  if (!resident) return Way::cached;
  if (*resident == piece.bytes) return Way::copy;
  if (route == Route::buffered || piece.bytes <= small_part_bytes) return Way::cached;
  // Little is missing: better to fetch that than to read everything again.
  if (*resident > piece.bytes - piece.bytes / 8) return Way::cached;
  return past_the_cache(piece);
}

EngineOptions choose_options(const EngineOptions& wish) {
  EngineOptions chosen = wish;
  if (wish.workers > workers_max) {
    throw Error(EINVAL, "workers: from 1 to " + std::to_string(workers_max));
  }
  if (wish.depth > depth_max) throw Error(EINVAL, "depth: from 1 to " + std::to_string(depth_max));
  if (wish.task_bytes > task_bytes_max || wish.task_bytes % piece_alignment_bytes != 0) {
    throw Error(EINVAL, "task_bytes: a multiple of 4096, at most 67108864");
  }
  if (wish.workers == 0) chosen.workers = std::clamp(usable_cpus(), 1U, 16U);
  if (wish.depth == 0) chosen.depth = depth_default;
  if (wish.task_bytes == 0) chosen.task_bytes = task_bytes_default;
  return chosen;
}

}  // namespace ferry::bulk
