// One collective transfer of one rank, as shared by all methods.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "collective/memory.hpp"
#include "collective/node_memory.hpp"
#include "collective/storage_file.hpp"
#include "collective/team.hpp"

namespace ferry::collective {

// The view of one rank.
struct FileView {
  std::int64_t displacement = 0;
  TypeMap map;
  // Elements of this size are byte-swapped in the file; 1: as in memory.
  std::int64_t swapped_bytes = 1;
  // Not a file view, as its copies interleave or it overlaps: requests need file_order.hpp.
  bool needs_order = false;
  // Of such a view: one copy of it, where that is a file view.
  std::optional<TypeMap> copy = std::nullopt;
  std::int64_t position_of(std::int64_t stream) const {
    return displacement + map.position_of(stream);
  }
  std::int64_t stream_at(std::int64_t position) const {
    return map.stream_at(position - displacement);
  }
};

// This rank's part of a transfer: bytes [stream, stream + bytes) of its view, from or to the
// beginning of the memory's stream.
struct RankRequest {
  const FileView& view;
  Memory memory;
  std::int64_t stream = 0;
  std::int64_t bytes = 0;

  std::int64_t begin() const { return view.position_of(stream); }
  std::int64_t end() const { return view.position_of(stream + bytes - 1) + 1; }
  // In the file.
  bool is_contiguous() const {
    return bytes == 0 || view.map.is_dense() || end() - begin() == bytes;
  }
};

// The first error of several; each is an errno or 0.
inline void keep(int& first, int error) {
  if (first == 0) first = error;
}

// What a method works with.
struct MethodContext {
  const Team& team;
  StorageFile* file;  // open on writers, else null
  Phases& phases;
  Counts& counts;
  const std::vector<int>& writers;
  NodeMemory* node_memory;  // the writers' windows; null for methods without
};

}  // namespace ferry::collective
