// Chooses a transfer's number of workers and task size from the location and the amount of its
// data, and each task's path when a worker takes it.
#pragma once

#include <cstdint>

#include <ferry/bulk.hpp>

#include "backend/cuda/resources.hpp"
#include "bulk/open_file.hpp"

namespace ferry::bulk {

enum class DataPath : std::uint8_t {
  copy,    // a blocking call: the page cache has the data or takes it
  cached,  // through the page cache by the storage's engine, which waits for the disk
  direct,  // past the page cache
  staged,  // past the page cache, through bounce buffers for direct I/O
};

struct RoutedPiece {
  EngineFile* file = nullptr;
  std::byte* data = nullptr;
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;
  Direction direction = Direction::read;
  // The memory's GPU; null: the host's. A GPU's is reached through page-locked slots on every path,
  // or by GPUDirect Storage (gpu_direct.hpp).
  const cuda::PrimaryContext* gpu = nullptr;
};

DataPath choose_way(const RoutedPiece& piece, Route route);

// An engine has no more worker threads.
inline constexpr unsigned workers_max = 64;

// Fills in what `wish` leaves open. Throws ferry::Error (EINVAL).
EngineOptions choose_options(const EngineOptions& wish);

enum class Source : std::uint8_t {
  memory,  // the page cache: the thread that has the task copies
  disk,    // a device that wants several requests at once and needs hardly any CPU
  server,  // another machine, whose storage spreads a worker's requests over connections
};

// The default task size between files and GPU memory: each task is a copy, which costs the driver
// some microseconds at any size.
inline constexpr std::uint64_t gpu_task_bytes = 1 << 20;

struct TransferPlan {
  Source source = Source::memory;
  unsigned workers = 1;
  std::uint64_t task_bytes = 0;
};

// Where a range of a file is or goes. Looks at samples of the range: at most 3 us.
Source source_of(EngineFile& file, Direction direction, std::uint64_t offset, std::uint64_t bytes,
                 Route route);

// `wish` is the caller's, `in_force` is from choose_options(). Tasks on a disk have
// in_force.task_bytes, the size of bounce buffers; copies have larger ones, from which a worker
// takes smaller pieces if they turn out not to be copies.
TransferPlan choose_plan(const EngineOptions& wish, const EngineOptions& in_force, Source source,
                         std::uint64_t bytes);

}  // namespace ferry::bulk
