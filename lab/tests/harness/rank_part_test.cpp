#include "harness/mpi/rank_part.hpp"

#include <set>
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

constexpr RankPattern both[] = {RankPattern::blocks, RankPattern::interleaved};

Cell cell_of(unsigned ranks, RankPattern pattern) {
  Cell cell;
  cell.threads = ranks;
  cell.pattern = pattern;
  cell.path = "/f";
  cell.piece_bytes = 4;
  cell.transfer_bytes = 12;
  cell.total_bytes = std::uint64_t{24} * ranks;
  return cell;
}

TEST(RankPart, HasEveryByteOfASharedFileOnce) {
  for (const RankPattern pattern : both) {
    const auto files = covered(cell_of(5, pattern));
    ASSERT_EQ(files.size(), 1U);
    EXPECT_EQ(files[0], std::vector<int>(120, 1));
  }
}

TEST(RankPart, HasEveryByteOfEachWritersFileOnce) {
  for (const RankPattern pattern : both) {
    Cell cell = cell_of(5, pattern);
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

TEST(RankPart, HasEveryRowOfASubarrayOnce) {
  for (const unsigned ranks : {1U, 2U, 8U, 32U}) {
    Cell cell = cell_of(ranks, RankPattern::subarray);
    cell.total_bytes = 8 << 20;  // of two planes of 64 x 64 x 128 doubles
    cell.transfer_bytes = cell.part_bytes();
    std::set<std::uint64_t> rows;
    for (unsigned rank = 0; rank < ranks; ++rank) {
      std::uint64_t last = 0;
      RankPart(cell, rank).for_each_piece(0, cell.part_bytes(), [&](auto offset, auto, auto bytes) {
        EXPECT_EQ(bytes, ranks == 1 ? 1024U : ranks == 32 ? 256U : 512U);
        EXPECT_LE(last, offset);
        EXPECT_TRUE(rows.insert(offset / bytes).second);
        last = offset;
      });
    }
    EXPECT_EQ(rows.size(), cell.total_bytes / (ranks == 1 ? 1024 : ranks == 32 ? 256 : 512));
  }
}

TEST(RankPart, InterleavesPieces) {
  const Cell cell = cell_of(3, RankPattern::interleaved);
  std::vector<std::uint64_t> offsets;
  RankPart(cell, 1).for_each_piece(0, 12,
                                   [&](auto offset, auto, auto) { offsets.push_back(offset); });
  EXPECT_EQ(offsets, (std::vector<std::uint64_t>{4, 16, 28}));
}

TEST(RankPart, NumbersFilesBeforeTheQueryOfAUri) {
  Cell cell = cell_of(2, RankPattern::blocks);
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
