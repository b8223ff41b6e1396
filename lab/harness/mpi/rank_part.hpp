// The bytes of each file that a rank has.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>

#include "harness/layout.hpp"
#include "harness/plan.hpp"

namespace ferry::bench {

// A rank's block of a 4-D array of doubles in C order, which fills the file: cut in two along the
// last dimension, then the one before, and so on, until each rank has a block.
struct Subarray {
  std::array<int, 4> sizes{0, 64, 64, 128};
  std::array<int, 4> subsizes{};
  std::array<int, 4> starts{};

  Subarray(std::uint64_t file_bytes, unsigned index, unsigned count) {
    sizes[0] = static_cast<int>(file_bytes / sizeof(double) / (64 * 64 * 128));
    std::array<unsigned, 4> grid{1, 1, 1, 1};
    for (unsigned left = count, i = 3; left > 1; left /= 2, i = (i + 3) % 4)
      grid[i] *= 2;
    for (std::size_t i = 4; i-- > 0; index /= grid[i]) {
      subsizes[i] = sizes[i] / static_cast<int>(grid[i]);
      starts[i] = static_cast<int>(index % grid[i]) * subsizes[i];
    }
  }

  std::uint64_t row_bytes() const {
    return static_cast<std::uint64_t>(subsizes[3]) * sizeof(double);
  }
  std::uint64_t bytes() const {
    return row_bytes() * static_cast<std::uint64_t>(subsizes[0]) *
           static_cast<std::uint64_t>(subsizes[1] * subsizes[2]);
  }
  // Where in the file this row of the block begins.
  std::uint64_t offset_of(std::uint64_t row) const {
    auto left = static_cast<std::int64_t>(row);
    const std::int64_t third = starts[2] + left % subsizes[2];
    left /= subsizes[2];
    const std::int64_t second = starts[1] + left % subsizes[1];
    const std::int64_t first = starts[0] + left / subsizes[1];
    const std::int64_t element =
        ((first * sizes[1] + second) * sizes[2] + third) * sizes[3] + starts[3];
    return static_cast<std::uint64_t>(element) * sizeof(double);
  }
};

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

  // Where a byte of the stream lies in what MPI sees of the file: of blocks, in the file itself.
  std::uint64_t offset_of(std::uint64_t stream) const {
    if (cell.pattern != RankPattern::blocks) return stream;
    return (stream / segment_bytes() * count + index) * segment_bytes() + stream % segment_bytes();
  }

  // Calls use(offset in the file, offset in the stream, bytes) for each piece that lies together.
  template <class Use>
  void for_each_piece(std::uint64_t stream, std::uint64_t length, Use use) const {
    switch (cell.pattern) {
      case RankPattern::blocks:
        return for_each_piece(stream, length, segment_bytes(), use,
                              [this](auto block) { return offset_of(block * segment_bytes()); });
      case RankPattern::interleaved:
        return for_each_piece(stream, length, cell.piece_bytes, use, [this](std::uint64_t piece) {
          return (piece * count + index) * cell.piece_bytes;
        });
      case RankPattern::subarray:
        const Subarray block(cell.total_bytes, index, count);
        return for_each_piece(stream, length, block.row_bytes(), use,
                              [&](std::uint64_t row) { return block.offset_of(row); });
    }
  }

 private:
  std::uint64_t segment_bytes() const { return bytes() / cell.segments; }  // of this rank

  template <class Use, class OffsetOf>
  static void for_each_piece(std::uint64_t stream, std::uint64_t length, std::uint64_t piece_bytes,
                             Use use, OffsetOf offset_of) {
    for (const std::uint64_t end = stream + length; stream < end;) {
      const std::uint64_t inside = stream % piece_bytes;
      const std::uint64_t step = std::min(piece_bytes - inside, end - stream);
      use(offset_of(stream / piece_bytes) + inside, stream, step);
      stream += step;
    }
  }
};

}  // namespace ferry::bench
