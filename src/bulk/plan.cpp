#include "bulk/plan.hpp"

#include <algorithm>

namespace ferry::bulk {
namespace {

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

bool resident(OpenFile& file, std::uint64_t offset, std::uint64_t bytes) {
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

Source source_of(OpenFile& file, Direction direction, std::uint64_t offset, std::uint64_t bytes,
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

Plan choose_plan(const EngineOptions& wish, const EngineOptions& in_force, Source source,
                 std::uint64_t bytes) {
  Plan plan{source, in_force.workers, in_force.task_bytes};
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
