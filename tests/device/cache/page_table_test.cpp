// How evenly the table spreads pages, for files of every shape. Speed alone depends on that, so the
// other tests do not see it.
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include <ferry/device/cache/page_table.hpp>

#include "support/memory_io.hpp"

namespace ferry::device::cache {
namespace {

// The table has two entries for each frame, and none to spare.
constexpr std::uint32_t frame_count = 7 << 10;

struct Files {
  const char* name;
  std::uint32_t pages;  // of each file that are entered
  std::uint64_t apart;  // of these, from one to the next
  std::uint32_t first_id;
};

class PageTableTest : public testing::TestWithParam<Files> {};

TEST_P(PageTableTest, NearlyEveryPageIsGuessed) {
  const test::TestCache memory(page_bytes_min, frame_count, 16, 1);
  const View& view = memory.view();
  const PageTable table(view);
  const Files& files = GetParam();
  std::vector<std::uint64_t> keys;
  for (std::uint32_t i = 0; i < frame_count; ++i)
    keys.push_back(key_of(files.first_id + i / files.pages, i % files.pages * files.apart));
  for (std::uint32_t frame = 0; frame < frame_count; ++frame)
    table.insert(hash_of(keys[frame]), keys[frame], frame);

  std::uint32_t guessed = 0;
  std::uint32_t wrong = 0;  // frames of other pages that look-ups tried
  for (std::uint32_t frame = 0; frame < frame_count; ++frame) {
    if (PageTable::guess(view, keys[frame]) == frame) ++guessed;
    const std::uint32_t found =
        table.find(hash_of(keys[frame]), keys[frame], [&](std::uint32_t other) {
          wrong += other != frame ? 1 : 0;
          return other == frame;
        });
    ASSERT_EQ(found, frame);
  }
  std::uint32_t passed_on = 0;  // how many buckets the pages lie behind their own
  for (std::uint64_t i = 0; i <= view.layout.bucket_mask; ++i)
    passed_on += view.bucket(i).overflow;
  EXPECT_LE(passed_on, frame_count / 4);
  EXPECT_LE(wrong, frame_count / 50);
  EXPECT_GE(guessed, frame_count * 3 / 4);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, PageTableTest,
    testing::Values(Files{"one_large_file", frame_count, 1, 3}, Files{"files_of_a_page", 1, 1, 0},
                    Files{"files_of_a_page_again", 1, 1, 700'000},
                    Files{"files_of_three_pages", 3, 1, 5}, Files{"files_of_a_mebibyte", 256, 1, 9},
                    Files{"files_of_17_pages", 17, 1, 9},
                    Files{"every_16th_page", frame_count, 16, 1},
                    Files{"every_1000th_page", frame_count, 1000, 1},
                    Files{"pages_a_gibibyte_apart", 16, 1 << 18, 1}),
    [](const testing::TestParamInfo<Files>& shape) { return shape.param.name; });

}  // namespace
}  // namespace ferry::device::cache
