// How many workers a transfer gets and what it is cut into: chosen from where its bytes are and how
// many they are. What becomes of each piece is decided when it is taken (routing.hpp).
#pragma once

#include <cstdint>

#include <ferry/bulk.hpp>

#include "bulk/open_file.hpp"

namespace ferry::bulk {

enum class Source : std::uint8_t {
  memory,  // the page cache: copies, each by the thread that has the task
  disk,    // a device that wants several requests at once and hardly any CPU
  server,  // another machine, whose storage spreads a worker's requests over connections
};

// What tasks between files and GPU memory have, unless somebody pins it: each is a copy of its own,
// which costs the driver some microseconds however small it is.
inline constexpr std::uint64_t gpu_task_bytes = 1 << 20;

struct Plan {
  Source source = Source::memory;
  unsigned workers = 1;
  std::uint64_t task_bytes = 0;
};

// Where a range of a file comes from or goes to. Looks at samples of the range: at most 3 us.
Source source_of(OpenFile& file, bool writing, std::uint64_t offset, std::uint64_t bytes,
                 Route route);

// `wish` as it was given, `in_force` from choose_options(). Tasks of a disk have
// in_force.task_bytes, which staging memory is made for; copies larger ones, of which a worker
// takes smaller pieces where they turn out to be none.
Plan choose_plan(const EngineOptions& wish, const EngineOptions& in_force, Source source,
                 std::uint64_t bytes);

}  // namespace ferry::bulk
