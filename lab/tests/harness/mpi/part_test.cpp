#include "harness/mpi/part.hpp"

#include <numeric>
#include <vector>

#include <gtest/gtest.h>

namespace ferry::bench::mpi::part_test {
namespace {

// How often each byte of each file is in some rank's part; checks that streams have no gaps.
std::vector<std::vector<int>> covered(const Cell& cell) {
  std::vector<std::vector<int>> files(cell.files());
  for (unsigned rank = 0; rank < cell.ranks; ++rank) {
    const Part part(cell, rank);
    std::vector<int>& file = files.at(part.file);
    file.resize(part.file_bytes());
    std::uint64_t next = 0;
    for (std::uint64_t at = 0; at < part.bytes(); at += cell.transfer_bytes) {
      part.for_each_piece(at, cell.transfer_bytes, [&](auto offset, auto stream, auto bytes) {
        EXPECT_EQ(stream, next);
        next += bytes;
        for (std::uint64_t i = 0; i < bytes; ++i)
          ++file.at(offset + i);
      });
    }
    EXPECT_EQ(next, cell.part_bytes());
  }
  return files;
}

Cell cell_of(unsigned ranks, Pattern pattern) {
  Cell cell;
  cell.ranks = ranks;
  cell.pattern = pattern;
  cell.path = "/f";
  cell.piece_bytes = 4;
  cell.transfer_bytes = 12;
  cell.total_bytes = std::uint64_t{24} * ranks;
  return cell;
}

TEST(Part, HasEveryByteOfASharedFileOnce) {
  for (const Pattern pattern : {Pattern::blocks, Pattern::interleaved}) {
    const auto files = covered(cell_of(5, pattern));
    ASSERT_EQ(files.size(), 1U);
    EXPECT_EQ(files[0], std::vector<int>(120, 1));
  }
}

TEST(Part, HasEveryByteOfEachWritersFileOnce) {
  for (const Pattern pattern : {Pattern::blocks, Pattern::interleaved}) {
    Cell cell = cell_of(5, pattern);
    cell.file_per_writer = true;
    cell.writers = 2;
    const auto files = covered(cell);
    ASSERT_EQ(files.size(), 2U);
    EXPECT_EQ(files[0], std::vector<int>(72, 1));
    EXPECT_EQ(files[1], std::vector<int>(48, 1));
    EXPECT_EQ(Part(cell, 2).path(), "/f.0");
    EXPECT_EQ(Part(cell, 3).path(), "/f.1");
  }
}

TEST(Part, InterleavesPieces) {
  const Cell cell = cell_of(3, Pattern::interleaved);
  std::vector<std::uint64_t> offsets;
  Part(cell, 1).for_each_piece(0, 12, [&](auto offset, auto, auto) { offsets.push_back(offset); });
  EXPECT_EQ(offsets, (std::vector<std::uint64_t>{4, 16, 28}));
}

TEST(Part, NumbersFilesBeforeTheQueryOfAUri) {
  Cell cell = cell_of(2, Pattern::blocks);
  cell.file_per_writer = true;
  cell.writers = 2;
  cell.path = "ceph:/f?conf=/a";
  EXPECT_EQ(Part(cell, 1).path(), "ceph:/f.1?conf=/a");
  cell.path = "/f?conf=/a";
  EXPECT_EQ(Part(cell, 1).path(), "/f?conf=/a.1");
}

TEST(Part, FilesShareTheRanksEvenly) {
  Cell cell;
  cell.file_per_writer = true;
  for (cell.ranks = 1; cell.ranks < 20; ++cell.ranks) {
    for (cell.writers = 1; cell.writers <= cell.ranks; ++cell.writers) {
      EXPECT_EQ(Part::first_rank(cell, 0), 0U);
      EXPECT_EQ(Part::first_rank(cell, cell.writers), cell.ranks);
      for (unsigned rank = 0; rank < cell.ranks; ++rank) {
        const Part part(cell, rank);
        EXPECT_EQ(Part::first_rank(cell, part.file) + part.index, rank);
        EXPECT_GE(part.count, cell.ranks / cell.writers);
        EXPECT_LE(part.count, cell.ranks / cell.writers + 1);
      }
    }
  }
}

}  // namespace
}  // namespace ferry::bench::mpi::part_test
