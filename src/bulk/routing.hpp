// Which way a piece of a transfer goes, and how large pieces are.
#pragma once

#include <cstdint>

#include <ferry/bulk.hpp>

#include "backend/cuda/resources.hpp"
#include "bulk/open_file.hpp"

namespace ferry::bulk {

enum class Way : std::uint8_t {
  copy,    // a blocking call where one is: the page cache has the data or takes it
  cached,  // through the page cache by the storage's engine, which waits for the disk
  direct,  // past the page cache
  staged,  // past the page cache, through staging memory that direct I/O accepts
};

struct Piece {
  OpenFile* file = nullptr;
  std::byte* data = nullptr;
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;
  bool writing = false;
  // Whose memory `data` is; null: the host's. A GPU's is reached through page-locked slots,
  // whichever way the slot's bytes go to or from the file, or past the host (gpu_direct.hpp).
  const cuda::PrimaryContext* gpu = nullptr;
};

Way choose_way(const Piece& piece, Route route);

// `wish` with the engine's choices where it left them open. Throws ferry::Error (EINVAL).
EngineOptions choose_options(const EngineOptions& wish);

}  // namespace ferry::bulk
