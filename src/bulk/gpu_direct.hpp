// Transfers by GPUDirect Storage, which bypass host memory.
#pragma once

#include <cstddef>
#include <cstdint>

#include "bulk/request.hpp"
#include "bulk/routing.hpp"

namespace ferry::bulk {

class Scheduler;

// Below this size, many tasks in flight beat a call that blocks a worker. Not measured.
inline constexpr std::uint64_t gpu_direct_bytes_min = small_part_bytes;

// Moves a piece of GPU memory past the page cache and records the result; blocks. Returns false if
// nothing was recorded and the piece must go through slots, even if parts of it were moved.
bool move_past_host(Scheduler& scheduler, BulkRequest& request, std::size_t part,
                    std::uint64_t begin, const RoutedPiece& piece);

}  // namespace ferry::bulk
