// The bytes of each file that a rank has.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "harness/layout.hpp"
#include "harness/plan.hpp"

namespace ferry::bench {

// The stream of a rank's data, and where that lies.
struct RankPart {
  const Cell& cell;
  unsigned file = 0;   // its number
  unsigned index = 0;  // of this rank among those that share the file
  unsigned count = 1;  // of them

  RankPart(const Cell& of, unsigned rank)
      : cell(of),
        file(static_cast<unsigned>(std::uint64_t{rank} * file_count(of) / of.threads)),
        index(rank - first_rank_of(of, file)),
        count(first_rank_of(of, file + 1) - first_rank_of(of, file)) {}

  std::string path() const { return file_path(cell, file); }
  std::uint64_t bytes() const { return cell.part_bytes(); }

  // Calls use(offset in the file, offset in the stream, bytes) for each piece that lies together.
  template <class Use>
  void for_each_piece(std::uint64_t stream, std::uint64_t length, Use use) const {
    if (!cell.interleaved) {
      use(index * bytes() + stream, stream, length);
      return;
    }
    const std::uint64_t end = stream + length;
    while (stream < end) {
      const std::uint64_t inside = stream % cell.piece_bytes;
      const std::uint64_t step = std::min(cell.piece_bytes - inside, end - stream);
      use((stream / cell.piece_bytes * count + index) * cell.piece_bytes + inside, stream, step);
      stream += step;
    }
  }
};

}  // namespace ferry::bench
