// Which bytes of which file a rank has.
#pragma once

#include <cstdint>
#include <string>

#include "collective/division.hpp"
#include "harness/mpi/plan.hpp"

namespace ferry::bench::mpi {

// What one rank has: the stream of its data, and where that lies.
struct Part {
  const Cell& cell;
  unsigned file = 0;   // its number
  unsigned index = 0;  // of this rank among those that share the file
  unsigned count = 1;  // of them

  Part(const Cell& of, unsigned rank) : cell(of), index(rank), count(of.ranks) {
    if (!cell.file_per_writer) return;
    const auto ranks = static_cast<int>(cell.ranks);
    const auto files = static_cast<int>(cell.writers);
    file = static_cast<unsigned>(collective::file_of(static_cast<int>(rank), ranks, files));
    index = rank - first_rank(cell, file);
    count = first_rank(cell, file + 1) - first_rank(cell, file);
  }
  // Of those that share a file, as the library divides them.
  static unsigned first_rank(const Cell& cell, unsigned file) {
    return static_cast<unsigned>(collective::first_rank_of(
        static_cast<int>(file), static_cast<int>(cell.ranks), static_cast<int>(cell.files())));
  }

  std::string path() const { return path_of(cell, file); }
  static std::string path_of(const Cell& cell, unsigned file) {
    if (!cell.file_per_writer) return cell.path;
    return collective::path_of(cell.path, static_cast<int>(file), static_cast<int>(cell.files()));
  }
  std::uint64_t bytes() const { return cell.part_bytes(); }
  std::uint64_t file_bytes() const { return bytes() * count; }
  std::uint64_t seed(std::uint64_t of_cell) const { return of_cell + file; }

  // Calls use(offset in the file, offset in the stream, bytes) for each piece that lies together.
  template <class Use>
  void for_each_piece(std::uint64_t stream, std::uint64_t length, Use use) const {
    if (cell.pattern == Pattern::blocks) {
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

}  // namespace ferry::bench::mpi
