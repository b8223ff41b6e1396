// Which bytes of which files belong to whom: threads and ranks.
#include "harness/layout.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "harness/mpi/rank_part.hpp"

namespace ferry::bench {
namespace {

Cell cell_of(unsigned threads, unsigned segments, bool file_per_thread) {
  Cell cell;
  cell.path = "/data/file";
  cell.transfer_bytes = 4096;
  cell.threads = threads;
  cell.segments = segments;
  cell.file_per_thread = file_per_thread;
  cell.total_bytes = std::uint64_t{8192} * 3 * threads * segments;
  return cell;
}

// Every byte of every file belongs to exactly one call.
TEST(Layout, CoversEveryFileOnce) {
  for (const unsigned threads : {1U, 3U}) {
    for (const unsigned segments : {1U, 4U}) {
      for (const bool own : {false, true}) {
        const Cell cell = cell_of(threads, segments, own);
        std::map<unsigned, std::set<std::uint64_t>> offsets;
        for (unsigned index = 0; index < threads; ++index) {
          const ThreadPart part = part_of(cell, index);
          for (std::uint64_t call = 0; call < cell.calls_per_thread(); ++call)
            EXPECT_TRUE(offsets[part.file].insert(part.offset_of(call)).second);
        }
        EXPECT_EQ(offsets.size(), file_count(cell));
        for (const auto& [file, of_file] : offsets) {
          EXPECT_EQ(of_file.size() * cell.transfer_bytes, file_bytes(cell, file));
          EXPECT_EQ(*of_file.rbegin(), file_bytes(cell, file) - cell.transfer_bytes);
        }
      }
    }
  }
}

TEST(Layout, ASegmentHasABlockOfEveryThread) {
  const Cell cell = cell_of(2, 2, false);  // blocks of 6 calls
  EXPECT_EQ(part_of(cell, 0).offset_of(0), 0U);
  EXPECT_EQ(part_of(cell, 1).offset_of(0), 6U * 4096);
  EXPECT_EQ(part_of(cell, 0).offset_of(6), 12U * 4096);
  EXPECT_EQ(part_of(cell, 1).offset_of(11), 23U * 4096);
}

TEST(Layout, FilesAreNamedAsIorDoes) {
  EXPECT_EQ(file_path(cell_of(2, 1, false), 0), "/data/file");
  EXPECT_EQ(file_path(cell_of(2, 1, true), 1), "/data/file.00000001");
  EXPECT_NE(file_seed(7, 0), file_seed(7, 1));
  EXPECT_EQ(file_seed(7, 0), 7U);
}

TEST(Layout, AFileForEachTransferIsASharedFileCutIntoPieces) {
  Cell cell = cell_of(2, 1, false);  // 3 * 2 calls of 4096 bytes for each thread
  cell.program = Program::files;
  EXPECT_EQ(file_count(cell), 12U);
  EXPECT_EQ(file_bytes(cell, 0), cell.transfer_bytes);
  EXPECT_EQ(file_path(cell, 7), "/data/file.00000007");
  std::set<unsigned> files;
  for (unsigned index = 0; index < cell.threads; ++index) {
    const ThreadPart part = part_of(cell, index);
    for (std::uint64_t call = 0; call < cell.calls_per_thread(); ++call) {
      const Place place = place_of(cell, part, part.offset_of(call));
      EXPECT_EQ(place.offset, 0U);
      EXPECT_TRUE(files.insert(place.file).second);
      // Its contents are those of its piece of the large file.
      EXPECT_EQ(contents_of(cell, 5, place.file).seed, 5U);
      EXPECT_EQ(contents_of(cell, 5, place.file).begin, part.offset_of(call));
    }
  }
  EXPECT_EQ(files.size(), 12U);
  EXPECT_EQ(*files.rbegin(), 11U);
}

TEST(Layout, OpenFilesAreASharedFileCutIntoFewerPieces) {
  Cell cell = cell_of(2, 1, false);
  cell.open_files = 4;
  EXPECT_EQ(file_count(cell), 4U);
  EXPECT_EQ(file_bytes(cell, 0), 3 * cell.transfer_bytes);
  EXPECT_EQ(files_of_part(cell), 2U);
  const ThreadPart part = part_of(cell, 1);
  EXPECT_EQ(place_of(cell, part, part.offset_of(0)).file, 2U);
  const Place last = place_of(cell, part, part.offset_of(5));
  EXPECT_EQ(last.file, 3U);
  EXPECT_EQ(last.offset, 2 * cell.transfer_bytes);
  EXPECT_EQ(contents_of(cell, 5, 3).begin + last.offset, part.offset_of(5));
}

TEST(Layout, NumbersOfFilesStandBeforeTheQueryOfAUri) {
  Cell cell = cell_of(2, 1, true);
  cell.path = "ceph:/data/f?conf=/etc/c?.conf";
  EXPECT_EQ(file_path(cell, 1), "ceph:/data/f.00000001?conf=/etc/c?.conf");
  cell.path = "/data/f?x";
  EXPECT_EQ(file_path(cell, 1), "/data/f?x.00000001");
  cell.path = "nfs://server/export/f";
  EXPECT_EQ(file_path(cell, 0), "nfs://server/export/f.00000000");
  cell.file_per_thread = false;
  cell.path = "nfs://server/export/f?uid=1";
  EXPECT_EQ(file_path(cell, 0), cell.path);
}

TEST(Layout, ReorderingGivesEveryPartToOneThread) {
  Cell cell = cell_of(5, 1, false);
  const std::vector<unsigned> own = {0, 1, 2, 3, 4};
  EXPECT_EQ(parts_by_thread(cell, 0), own);
  cell.reorder = Reorder::neighbour;
  EXPECT_EQ(parts_by_thread(cell, 0), (std::vector<unsigned>{1, 2, 3, 4, 0}));
  cell.reorder = Reorder::random;
  std::set<std::vector<unsigned>> orders;
  for (unsigned repeat = 0; repeat < 20; ++repeat) {
    std::vector<unsigned> parts = parts_by_thread(cell, repeat);
    EXPECT_EQ(parts, parts_by_thread(cell, repeat));
    orders.insert(parts);
    std::sort(parts.begin(), parts.end());
    EXPECT_EQ(parts, own);
  }
  EXPECT_GT(orders.size(), 10U);
}

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

Cell rank_cell(unsigned ranks, RankPattern pattern) {
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
    const auto files = covered(rank_cell(5, pattern));
    ASSERT_EQ(files.size(), 1U);
    EXPECT_EQ(files[0], std::vector<int>(120, 1));
  }
}

TEST(RankPart, HasEveryByteOfASharedFileWithSegmentsOnce) {
  Cell cell = rank_cell(5, RankPattern::blocks);
  cell.streams = true;
  cell.segments = 2;
  const auto files = covered(cell);
  ASSERT_EQ(files.size(), 1U);
  EXPECT_EQ(files[0], std::vector<int>(120, 1));
  EXPECT_EQ(RankPart(cell, 1).offset_of(0), 12U);
  EXPECT_EQ(RankPart(cell, 1).offset_of(12), 72U);
}

TEST(RankPart, HasAFileForEachRank) {
  Cell cell = rank_cell(3, RankPattern::blocks);
  cell.streams = true;
  cell.segments = 2;
  cell.file_per_thread = true;
  const auto files = covered(cell);
  EXPECT_EQ(files, std::vector(3, std::vector<int>(24, 1)));
  EXPECT_EQ(RankPart(cell, 2).path(), "/f.00000002");
  EXPECT_EQ(RankPart(cell, 2).offset_of(12), 12U);
}

TEST(RankPart, HasEveryByteOfEachWritersFileOnce) {
  for (const RankPattern pattern : both) {
    Cell cell = rank_cell(5, pattern);
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
    Cell cell = rank_cell(ranks, RankPattern::subarray);
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
  const Cell cell = rank_cell(3, RankPattern::interleaved);
  std::vector<std::uint64_t> offsets;
  RankPart(cell, 1).for_each_piece(0, 12,
                                   [&](auto offset, auto, auto) { offsets.push_back(offset); });
  EXPECT_EQ(offsets, (std::vector<std::uint64_t>{4, 16, 28}));
}

TEST(Layout, ThreadsThatGoOverTheSamePartHaveTheWholeFile) {
  Cell cell = cell_of(3, 1, false);
  cell.same_part = true;
  EXPECT_EQ(file_count(cell), 1U);
  EXPECT_EQ(file_bytes(cell, 0), cell.part_bytes());
  for (unsigned index = 0; index < cell.threads; ++index) {
    const ThreadPart part = part_of(cell, index);
    EXPECT_EQ(part.file, 0U);
    EXPECT_EQ(part.offset_of(0), 0U);
    EXPECT_EQ(part.offset_of(cell.calls_per_thread() - 1) + 4096, file_bytes(cell, 0));
  }
}

TEST(RankPart, NumbersFilesBeforeTheQueryOfAUri) {
  Cell cell = rank_cell(2, RankPattern::blocks);
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
}  // namespace ferry::bench
