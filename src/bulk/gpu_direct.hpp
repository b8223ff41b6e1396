// Pieces of transfers that GPUDirect Storage moves, past the host's memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "bulk/request.hpp"
#include "bulk/routing.hpp"

namespace ferry::bulk {

class Scheduler;

// Below, the slots' many tasks in flight are better than a call that blocks a worker. Not measured.
inline constexpr std::uint64_t gpu_direct_bytes_min = small_part_bytes;

// Moves a piece of GPU memory that is to go past the page cache, and records what became of it;
// blocks. False: nothing was recorded, and the piece has to go through the slots, whatever of it
// may have been moved.
bool move_past_host(Scheduler& scheduler, Request& request, std::size_t part, std::uint64_t begin,
                    const Piece& piece);

}  // namespace ferry::bulk
