#include "backend/cpu/arena.hpp"

#include <cstdint>
#include <cstring>
#include <map>
#include <system_error>
#include <vector>

#include <gtest/gtest.h>

#include "support/depth.hpp"
#include "support/within.hpp"

namespace ferry::cpu {
namespace {

constexpr std::uint64_t mib = 1 << 20;

TEST(CpuArena, IsZeroedAlignedAndRoundedUp) {
  const CpuArena arena(3 * mib, {});
  EXPECT_EQ(arena.bytes(), 4 * mib);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(arena.base()) % (2 * mib), 0U);
  for (std::uint64_t at = 0; at < arena.bytes(); ++at)
    ASSERT_EQ(arena.base()[at], 0) << at;
  std::memset(arena.base(), 0xff, arena.bytes());
}

TEST(CpuArena, SaysWhatItsPagesAre) {
  const std::string kind = CpuArena(4 * mib, {}).page_kind();
  EXPECT_TRUE(kind == "huge pages" || kind == "4 KiB pages" ||
              kind.rfind("transparent huge pages (", 0) == 0)
      << kind;
}

TEST(CpuArena, ThrowsWhenThereIsNotEnoughMemory) {
  EXPECT_THROW(CpuArena(std::uint64_t{1} << 60, {}), std::system_error);
  // Rounded up this is nothing at all.
  EXPECT_THROW(CpuArena(~std::uint64_t{0}, {}), std::system_error);
}

TEST(CpuArena, LeavesTheAffinityOfItsMakerAlone) {
  const CpuSet before = allowed_cpus();
  const CpuArena arena(2 * mib, {before.front()});
  EXPECT_EQ(allowed_cpus(), before);
}

class HeapTest : public testing::Test {
 protected:
  static constexpr std::uint64_t bytes = 64 * 1024;
  std::vector<unsigned char> memory = std::vector<unsigned char>(bytes);
  Heap heap{memory.data(), bytes};
};

TEST_F(HeapTest, GivesOutEverythingItHas) {
  void* all = heap.allocate(bytes, 1);
  EXPECT_EQ(all, memory.data());
  EXPECT_EQ(heap.largest_free_bytes(), 0U);
  EXPECT_EQ(heap.allocate(1, 1), nullptr);
  heap.free(all);
  EXPECT_EQ(heap.largest_free_bytes(), bytes);
}

TEST_F(HeapTest, RefusesWhatDoesNotFit) {
  EXPECT_EQ(heap.allocate(bytes + 1, 1), nullptr);
  EXPECT_EQ(heap.allocate(~std::uint64_t{0}, 1), nullptr);
  EXPECT_EQ(heap.allocate(~std::uint64_t{0} - 10, 4096), nullptr);
  EXPECT_EQ(heap.allocate(1, std::uint64_t{1} << 63), nullptr);
  EXPECT_EQ(heap.largest_free_bytes(), bytes);
}

TEST_F(HeapTest, GivesDistinctPiecesForNoBytes) {
  void* one = heap.allocate(0, 1);
  void* other = heap.allocate(0, 1);
  ASSERT_NE(one, nullptr);
  ASSERT_NE(other, nullptr);
  EXPECT_NE(one, other);
  heap.free(one);
  heap.free(other);
  EXPECT_EQ(heap.largest_free_bytes(), bytes);
}

TEST_F(HeapTest, MergesNeighboursInAnyOrder) {
  const std::vector<std::vector<int>> orders = {{0, 1, 2, 3}, {3, 2, 1, 0}, {1, 3, 0, 2},
                                                {2, 0, 3, 1}, {1, 2, 0, 3}, {0, 3, 2, 1}};
  for (const auto& order : orders) {
    void* pieces[4];
    for (void*& piece : pieces)
      piece = heap.allocate(bytes / 4, 1);
    ASSERT_EQ(heap.largest_free_bytes(), 0U);
    for (const int index : order)
      heap.free(pieces[index]);
    ASSERT_EQ(heap.largest_free_bytes(), bytes);
  }
}

// Checked against a map of the used pieces.
TEST_F(HeapTest, KeepsPiecesApartAndAligned) {
  test::Random random;
  struct Piece {
    std::uint64_t bytes;
    unsigned char mark;
  };
  std::map<unsigned char*, Piece> used;
  for (std::uint64_t round = 0; round < test::scaled(100'000); ++round) {
    if (used.empty() || random.below(100) < 55) {
      const std::uint64_t size = random.one_in(10) ? random.below(bytes) : random.below(2000);
      const std::uint64_t alignment = std::uint64_t{1} << random.below(14);
      auto* at = static_cast<unsigned char*>(heap.allocate(size, alignment));
      if (at == nullptr) {
        // Then no gap would have taken it.
        const unsigned char* gap = memory.data();
        const auto fits = [&](const unsigned char* begin, const unsigned char* end) {
          const auto start =
              (reinterpret_cast<std::uintptr_t>(begin) + alignment - 1) / alignment * alignment;
          return start + std::max<std::uint64_t>(size, 1) <= reinterpret_cast<std::uintptr_t>(end);
        };
        for (const auto& [begin, piece] : used) {
          ASSERT_FALSE(fits(gap, begin)) << size << " at " << alignment;
          gap = begin + std::max<std::uint64_t>(piece.bytes, 1);
        }
        ASSERT_FALSE(fits(gap, memory.data() + bytes)) << size << " at " << alignment;
        continue;
      }
      ASSERT_EQ(reinterpret_cast<std::uintptr_t>(at) % alignment, 0U);
      ASSERT_GE(at, memory.data());
      ASSERT_LE(at + size, memory.data() + bytes);
      const auto mark = static_cast<unsigned char>(random.bits());
      std::memset(at, mark, size);
      ASSERT_TRUE(used.emplace(at, Piece{size, mark}).second) << "given out twice";
    } else {
      auto victim = used.begin();
      std::advance(victim, static_cast<std::ptrdiff_t>(random.below(used.size())));
      const auto [at, piece] = *victim;
      for (std::uint64_t i = 0; i < piece.bytes; ++i)
        ASSERT_EQ(at[i], piece.mark) << "somebody else wrote here";
      heap.free(at);
      used.erase(victim);
    }
  }
  for (const auto& [at, piece] : used)
    heap.free(at);
  EXPECT_EQ(heap.largest_free_bytes(), bytes);
}

TEST_F(HeapTest, ServesManyThreads) {
  const std::uint64_t rounds = test::scaled(20'000);
  test::at_once("allocations", 4, [&](std::uint32_t index) {
    const auto mark = static_cast<unsigned char>(index + 1);
    for (std::uint64_t i = 0; i < rounds; ++i) {
      auto* at = static_cast<unsigned char*>(heap.allocate(100, 8));
      ASSERT_NE(at, nullptr);
      std::memset(at, mark, 100);
      for (int byte = 0; byte < 100; ++byte)
        ASSERT_EQ(at[byte], mark);
      heap.free(at);
    }
  });
  EXPECT_EQ(heap.largest_free_bytes(), bytes);
}

}  // namespace
}  // namespace ferry::cpu
