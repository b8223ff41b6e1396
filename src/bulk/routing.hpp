// Chooses the path of a piece of a transfer, and the size of pieces.
#pragma once

#include <cstdint>

#include <ferry/bulk.hpp>

#include "backend/cuda/resources.hpp"
#include "bulk/open_file.hpp"

namespace ferry::bulk {

enum class Way : std::uint8_t {
  copy,    // a blocking call: the page cache has the data or takes it
  cached,  // through the page cache by the storage's engine, which waits for the disk
  direct,  // past the page cache
  staged,  // past the page cache, through bounce buffers for direct I/O
};

struct Piece {
  OpenFile* file = nullptr;
  std::byte* data = nullptr;
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;
  Direction direction = Direction::read;
  // The memory's GPU; null: the host's. A GPU's is reached through page-locked slots on every path,
  // or by GPUDirect Storage (gpu_direct.hpp).
  const cuda::PrimaryContext* gpu = nullptr;
};

Way choose_way(const Piece& piece, Route route);

// Fills in what `wish` leaves open. Throws ferry::Error (EINVAL).
EngineOptions choose_options(const EngineOptions& wish);

}  // namespace ferry::bulk
