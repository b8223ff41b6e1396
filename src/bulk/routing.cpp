#include "bulk/routing.hpp"

#include <algorithm>
#include <cerrno>
#include <string>

#include "base/cpus.hpp"
#include "bulk/request.hpp"

namespace ferry::bulk {
namespace {

// lab/micro/bulk.py sweeps around these.
constexpr std::uint64_t task_bytes_default = 256 << 10;
constexpr unsigned depth_default = 8;
constexpr unsigned depth_max = 64;
constexpr std::uint64_t task_bytes_max = 64 << 20;

bool is_aligned(const RoutedPiece& piece) {
  const std::uint64_t all =
      piece.offset | piece.bytes |
      static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(piece.data));
  return all % piece_alignment_bytes == 0;
}

DataPath past_the_cache(const RoutedPiece& piece) {
  if (piece.file->direct() == nullptr) return DataPath::cached;
  // Unaligned writes need the surrounding blocks; the storage sends them through the page cache.
  const bool edges =
      piece.offset % piece_alignment_bytes != 0 || piece.bytes % piece_alignment_bytes != 0;
  // Slots are aligned.
  if (piece.gpu != nullptr)
    return piece.direction == Direction::write ? DataPath::direct : DataPath::staged;
  if (is_aligned(piece) || (piece.direction == Direction::write && edges)) return DataPath::direct;
  return DataPath::staged;
}

constexpr std::uint64_t sample_bytes = 64 << 10;
constexpr std::uint64_t samples = 4;
// Waking a thread takes as long as copying a good part of this.
constexpr std::uint64_t copies_per_worker_bytes_min = 1 << 20;
// Threads for a disk: while one copies from its bounce buffers, others have requests in flight.
// Also with fewer CPUs.
constexpr unsigned disk_workers = 4;
// A copying call costs about 2 us at any size. Each thread should get several, because threads may
// differ in speed.
constexpr std::uint64_t copy_task_bytes_max = 4 << 20;
constexpr std::uint64_t copy_tasks_per_worker = 8;
// The size of an NFS server's requests; the storage makes them smaller if the server wants that.
constexpr std::uint64_t server_task_bytes = 1 << 20;

bool resident(EngineFile& file, std::uint64_t offset, std::uint64_t bytes) {
  return file.resident_bytes(offset, bytes) == bytes;
}

unsigned choose_workers(const EngineOptions& in_force, Source source, std::uint64_t bytes) {
  switch (source) {
    case Source::memory:
      return static_cast<unsigned>(
          std::clamp<std::uint64_t>(bytes / copies_per_worker_bytes_min, 1, in_force.workers));
    case Source::disk:
      return disk_workers;
    case Source::server:
      break;
  }
  return 1;
}

}  // namespace

DataPath choose_way(const RoutedPiece& piece, Route route) {
  const bool pinned_direct = route == Route::direct || piece.file->always_direct();
  if (piece.direction == Direction::write) {
    // Buffered writes through other handles would have to wait for direct ones, so only a file
    // opened for it writes directly.
    if (piece.file->always_direct()) return past_the_cache(piece);
    // A server wants many requests in flight; the kernel's page cache takes one at a time.
    return piece.file->may_hang() ? DataPath::cached : DataPath::copy;
  }
  if (pinned_direct) return past_the_cache(piece);
  // Every other file would miss a worker that waits for it; the storage has threads for that.
  if (piece.file->may_hang()) return DataPath::cached;
  const auto resident = piece.file->resident_bytes(piece.offset, piece.bytes);
  if (!resident) return DataPath::cached;
  if (*resident == piece.bytes) return DataPath::copy;
  if (route == Route::buffered || piece.bytes <= small_part_bytes) return DataPath::cached;
  // Little is missing: better to fetch that than to read everything again.
  if (*resident > piece.bytes - piece.bytes / 8) return DataPath::cached;
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

Source source_of(EngineFile& file, Direction direction, std::uint64_t offset, std::uint64_t bytes,
                 Route route) {
  if (!file.local()) return Source::server;
  if (file.always_direct()) return Source::disk;
  if (direction == Direction::write) return Source::memory;
  if (route == Route::direct) return Source::disk;
  if (bytes <= samples * sample_bytes) {
    return resident(file, offset, bytes) ? Source::memory : Source::disk;
  }
  for (std::uint64_t i = 0; i < samples; ++i) {
    const std::uint64_t at = offset + (bytes - sample_bytes) / (samples - 1) * i;
    if (!resident(file, at, sample_bytes)) return Source::disk;
  }
  return Source::memory;
}

TransferPlan choose_plan(const EngineOptions& wish, const EngineOptions& in_force, Source source,
                         std::uint64_t bytes) {
  TransferPlan plan{source, in_force.workers, in_force.task_bytes};
  if (wish.workers == 0) plan.workers = choose_workers(in_force, source, bytes);
  if (wish.task_bytes != 0) return plan;
  if (source == Source::server) plan.task_bytes = server_task_bytes;
  if (source == Source::memory) {
    // A single worker shares with none.
    const std::uint64_t tasks = plan.workers == 1 ? 1 : copy_tasks_per_worker * plan.workers;
    const std::uint64_t unit = in_force.task_bytes;
    const std::uint64_t share = (bytes / tasks + unit - 1) / unit * unit;
    plan.task_bytes = std::clamp(share, unit, std::max(unit, copy_task_bytes_max));
  }
  return plan;
}

}  // namespace ferry::bulk
