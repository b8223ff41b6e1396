#include "harness/mpi/rank_part.hpp"

#include <vector>

#include <gtest/gtest.h>

namespace ferry::bench::rank_part_test {
namespace {

// How often each byte of each file is in some rank's part; checks that streams have no gaps.
std::vector<std::vector<int>> covered(const Cell& cell) {
  std::vector<std::vector<int>> files(file_count(cell));
  for (unsigned rank = 0; rank < cell.threads; ++rank) {
    const RankPart part(cell, rank);
    std::vector<int>& file = files.at(part.file);
    file.resize(file_bytes(cell, part.file));
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

Cell cell_of(unsigned ranks, bool interleaved) {
  Cell cell;
  cell.threads = ranks;
  cell.interleaved = interleaved;
  cell.path = "/f";
  cell.piece_bytes = 4;
  cell.transfer_bytes = 12;
  cell.total_bytes = std::uint64_t{24} * ranks;
  return cell;
}

TEST(RankPart, HasEveryByteOfASharedFileOnce) {
  for (const bool interleaved : {false, true}) {
    const auto files = covered(cell_of(5, interleaved));
    ASSERT_EQ(files.size(), 1U);
    EXPECT_EQ(files[0], std::vector<int>(120, 1));
  }
}

TEST(RankPart, HasEveryByteOfEachWritersFileOnce) {
  for (const bool interleaved : {false, true}) {
    Cell cell = cell_of(5, interleaved);
    cell.file_per_writer = true;
    cell.writers = 2;
    const auto files = covered(cell);
    ASSERT_EQ(files.size(), 2U);
    EXPECT_EQ(files[0], std::vector<int>(72, 1));
    EXPECT_EQ(files[1], std::vector<int>(48, 1));
    EXPECT_EQ(RankPart(cell, 2).path(), "/f.0");
    EXPECT_EQ(RankPart(cell, 3).path(), "/f.1");
  }
}

TEST(RankPart, InterleavesPieces) {
  const Cell cell = cell_of(3, true);
  std::vector<std::uint64_t> offsets;
  RankPart(cell, 1).for_each_piece(0, 12,
                                   [&](auto offset, auto, auto) { offsets.push_back(offset); });
  EXPECT_EQ(offsets, (std::vector<std::uint64_t>{4, 16, 28}));
}

TEST(RankPart, NumbersFilesBeforeTheQueryOfAUri) {
  Cell cell = cell_of(2, false);
  cell.file_per_writer = true;
  cell.writers = 2;
  cell.path = "ceph:/f?conf=/a";
  EXPECT_EQ(RankPart(cell, 1).path(), "ceph:/f.1?conf=/a");
  cell.path = "/f?conf=/a";
  EXPECT_EQ(RankPart(cell, 1).path(), "/f?conf=/a.1");
}

TEST(RankPart, FilesShareTheRanksEvenly) {
  Cell cell;
  cell.file_per_writer = true;
  for (cell.threads = 1; cell.threads < 20; ++cell.threads) {
    for (cell.writers = 1; cell.writers <= cell.threads; ++cell.writers) {
      EXPECT_EQ(first_rank_of(cell, 0), 0U);
      EXPECT_EQ(first_rank_of(cell, cell.writers), cell.threads);
      for (unsigned rank = 0; rank < cell.threads; ++rank) {
        const RankPart part(cell, rank);
        EXPECT_EQ(first_rank_of(cell, part.file) + part.index, rank);
        EXPECT_GE(part.count, cell.threads / cell.writers);
        EXPECT_LE(part.count, cell.threads / cell.writers + 1);
      }
    }
  }
}

}  // namespace
}  // namespace ferry::bench::rank_part_test
