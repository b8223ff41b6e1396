#include "bulk/gpu_direct.hpp"

#include <cerrno>
#include <optional>

#include "bulk/scheduler.hpp"

namespace ferry::bulk {
namespace {

using cuda::GpuDirectFile;

bool whole_blocks(const RoutedPiece& piece) {
  return (piece.offset | piece.bytes) % piece_alignment_bytes == 0;
}

// Returns bytes or a negative errno; continues after short transfers, because only another one
// tells the end of the file from an error.
GpuDirectFile::Outcome move(const GpuDirectFile& file, const BulkRequest& request,
                            const RoutedPiece& piece) {
  std::uint64_t moved = 0;
  while (moved < piece.bytes) {
    if (request.cancelled()) return {-ECANCELED, GpuDirectFile::Refusal::none};
    // The rest of a short write may not be whole blocks.
    if (piece.direction == Direction::write && moved % piece_alignment_bytes != 0) {
      return {0, GpuDirectFile::Refusal::memory};
    }
    const GpuDirectFile::Outcome outcome = file.transfer(
        *piece.gpu, piece.direction, piece.data + moved, piece.bytes - moved, piece.offset + moved);
    if (outcome.refusal != GpuDirectFile::Refusal::none || outcome.result < 0) return outcome;
    if (outcome.result == 0) {
      if (piece.direction == Direction::write) return {-EIO, GpuDirectFile::Refusal::none};
      break;
    }
    moved += static_cast<std::uint64_t>(outcome.result);
  }
  return {static_cast<std::int64_t>(moved), GpuDirectFile::Refusal::none};
}

}  // namespace

bool move_past_host(Scheduler& scheduler, BulkRequest& request, std::size_t part,
                    std::uint64_t begin, const RoutedPiece& piece) {
  if (piece.bytes < gpu_direct_bytes_min) return false;
  if (piece.direction == Direction::write && !whole_blocks(piece)) return false;
  const GpuDirectFile* file = piece.file->gpu_direct(scheduler.gpus());
  if (file == nullptr) return false;
  GpuDirectFile::Outcome outcome;
  {
    std::optional<storage::DirectWrite> turn;
    if (piece.direction == Direction::write && !turn.emplace(*piece.file->direct()).granted())
      return false;
    outcome = move(*file, request, piece);
  }
  if (outcome.refusal == GpuDirectFile::Refusal::file) piece.file->give_up_gpu_direct();
  if (outcome.refusal != GpuDirectFile::Refusal::none) return false;
  SchedulerCounters& counters = scheduler.counters();
  counters.add(&EngineStatistics::direct_tasks);
  counters.add(&EngineStatistics::gpu_tasks);
  counters.add(&EngineStatistics::gpu_direct_tasks);
  if (outcome.result > 0) {
    const auto moved = static_cast<std::uint64_t>(outcome.result);
    counters.add(&EngineStatistics::gpu_direct_bytes, moved);
    counters.add_bytes(piece.direction, moved);
  }
  request.record(part, begin, piece.bytes, outcome.result);
  return true;
}

}  // namespace ferry::bulk
