// Chooses a transfer's number of workers and task size from the location and the amount of its
// data. Each task's path is chosen when a worker takes it (routing.hpp).
#pragma once

#include <cstdint>

#include <ferry/bulk.hpp>

#include "bulk/open_file.hpp"

namespace ferry::bulk {

enum class Source : std::uint8_t {
  memory,  // the page cache: the thread that has the task copies
  disk,    // a device that wants several requests at once and needs hardly any CPU
  server,  // another machine, whose storage spreads a worker's requests over connections
};

// The default task size between files and GPU memory: each task is a copy, which costs the driver
// some microseconds at any size.
inline constexpr std::uint64_t gpu_task_bytes = 1 << 20;

struct Plan {
  Source source = Source::memory;
  unsigned workers = 1;
  std::uint64_t task_bytes = 0;
};

// Where a range of a file is or goes. Looks at samples of the range: at most 3 us.
Source source_of(OpenFile& file, Direction direction, std::uint64_t offset, std::uint64_t bytes,
                 Route route);

// `wish` is the caller's, `in_force` is from choose_options(). Tasks on a disk have
// in_force.task_bytes, the size of bounce buffers; copies have larger ones, from which a worker
// takes smaller pieces if they turn out not to be copies.
Plan choose_plan(const EngineOptions& wish, const EngineOptions& in_force, Source source,
                 std::uint64_t bytes);

}  // namespace ferry::bulk
