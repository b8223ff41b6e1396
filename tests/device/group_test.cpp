// How blocks are cut into tiles, and tiles with fewer lanes than their kind.
#include <cstdint>
#include <map>
#include <string>

#include <gtest/gtest.h>

#include <ferry/device/copy.hpp>
#include <ferry/device/group.hpp>

#include "backend/cpu/lanes.hpp"
#include "support/files.hpp"

namespace ferry::device {
namespace {

// Every thread of a few blocks finds its tile: one that has threads of its own block and its own
// warp only, and knows how many.
TEST(Tiles, AreNeverSharedByBlocks) {
  constexpr std::uint32_t warp = 32;
  for (const std::uint32_t lanes : {2U, 4U, 8U, 16U, 32U}) {
    for (std::uint32_t threads = 1; threads <= 3 * warp + 5; ++threads) {
      SCOPED_TRACE(std::to_string(threads) + " threads, " + std::to_string(lanes) + " lanes");
      struct Tile {
        std::uint32_t block = 0;
        std::uint32_t warp = 0;
        std::uint32_t found = 0;
        std::uint32_t said = 0;
      };
      std::map<std::uint32_t, Tile> tiles;
      for (std::uint32_t block = 0; block < 3; ++block) {
        for (std::uint32_t thread = 0; thread < threads; ++thread) {
          const auto [at, is_new] = tiles.try_emplace(
              tile_in_grid(block, threads, thread, lanes),
              Tile{block, thread / warp, 0, lanes_in_tile(threads, thread, lanes)});
          Tile& tile = at->second;
          ++tile.found;
          ASSERT_EQ(tile.block, block);
          ASSERT_EQ(tile.warp, thread / warp);
          ASSERT_EQ(tile.said, lanes_in_tile(threads, thread, lanes));
        }
      }
      EXPECT_EQ(tiles.size(), 3 * tiles_in_block(threads, lanes));
      EXPECT_EQ(tiles.rbegin()->first, tiles.size() - 1) << "indices leave no gaps";
      for (const auto& [index, tile] : tiles)
        EXPECT_EQ(tile.found, tile.said) << index;
    }
  }
}

// A tile of eight at the end of a block, on emulated lanes.
class LastTile {
 public:
  static constexpr std::uint32_t lanes_max = 8;
  explicit LastTile(cpu::LaneGroup lanes) : lanes_(lanes) {}
  std::uint32_t lane() const { return lanes_.lane(); }
  std::uint32_t size() const { return lanes_.size(); }
  void sync() const { lanes_.sync(); }

 private:
  cpu::LaneGroup lanes_;
};

TEST(Tiles, CopyEverythingWithTheLanesThatThereAre) {
  for (const std::uint32_t lanes : {1U, 3U, 5U, 8U}) {
    for (const std::size_t bytes : {std::size_t{1}, std::size_t{100}, std::size_t{5000}}) {
      for (const std::size_t skew : {std::size_t{0}, std::size_t{4}, std::size_t{3}}) {
        const std::string from = test::pattern(bytes, lanes);
        std::string to(bytes + skew, '-');
        cpu::run_lanes(lanes, [&](cpu::LaneGroup group) {
          copy_bytes(LastTile(group), to.data() + skew, from.data(), bytes);
        });
        EXPECT_TRUE(test::same_bytes(std::string_view(to).substr(skew), from))
            << lanes << " lanes, " << bytes << " bytes, skew " << skew;
      }
    }
  }
}

}  // namespace
}  // namespace ferry::device
