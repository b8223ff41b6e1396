// Pages read under a mark are not reused meanwhile (M1), with either kind of barrier.
#include <atomic>
#include <chrono>
#include <set>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include <ferry/device/cache/hazard_pointers.hpp>

#include "support/depth.hpp"
#include "support/page_cache_rig.hpp"

namespace ferry::device::cache {
namespace {

using test::page;
using test::scaled;

enum class Barriers { everywhere, of_readers };

class MarksTest : public test::OneFileTest, public testing::WithParamInterface<Barriers> {
 protected:
  // A file of `pages` pages and a cache of `frames` frames for it.
  void make_file(std::uint32_t frames, std::uint32_t groups, std::size_t pages) {
    // Readahead would evict pages at unpredictable times.
    Switches switches;
    switches.readahead = false;
    OneFileTest::make_file(frames, pages, groups, switches);
    if (GetParam() == Barriers::of_readers) memory->have_readers_make_barriers();
  }
  std::uint32_t frame_of(std::uint64_t number) {
    Frames frames(memory->view(), hooks);
    const std::uint32_t frame = frames.find(key_of(0, number));
    if (frame != no_frame) frames.unpin(frame);
    return frame;
  }
  bool hit(std::uint32_t group, void* to, std::uint64_t bytes, std::uint64_t offset) {
    return read_hit(memory->view(), group, 0, to, bytes, offset);
  }
  std::string part(std::size_t offset, std::size_t bytes) const {
    return data.substr(offset, bytes);
  }
};

TEST_P(MarksTest, AHitTakesWhatLiesInOnePage) {
  make_file(4, 1, 4);
  std::string got(page, '?');
  EXPECT_FALSE(hit(0, got.data(), 10, 0)) << "absent";
  ASSERT_EQ(read(0, 0, 2 * page), part(0, 2 * page));
  ASSERT_TRUE(hit(0, got.data(), page, page));
  EXPECT_EQ(got, part(page, page));
  EXPECT_FALSE(hit(0, got.data(), 2, page - 1)) << "in two pages";
  EXPECT_FALSE(hit(0, got.data(), 0, 0)) << "nothing to read";
  EXPECT_FALSE(hit(0, got.data(), page, 4 * page)) << "behind the end of the file";
  EXPECT_EQ(memory->view().mark(0).frame, 0U) << "a mark stayed behind";
}

TEST_P(MarksTest, AMarkedFrameIsNotReusedUntilItIsLetGo) {
  make_file(4, 2, 64);
  ASSERT_EQ(read(0, 0, page), part(0, page));
  const std::uint32_t marked = frame_of(0);
  ASSERT_NE(marked, no_frame);
  {
    const HazardGuard mark(memory->view(), 1, marked);
    // Everything else runs many times.
    for (std::size_t number = 1; number < 64; ++number)
      ASSERT_EQ(read(0, number * page, page), part(number * page, page));
    const std::string there(reinterpret_cast<const char*>(memory->view().page(marked)), page);
    EXPECT_EQ(there, part(0, page)) << "the frame was reused under the mark";
    EXPECT_EQ(frame_of(0), no_frame) << "its page has left the table all the same";
  }
  std::set<std::uint32_t> used;
  for (std::size_t number = 1; number < 64; ++number) {
    ASSERT_EQ(read(0, number * page, page), part(number * page, page));
    used.insert(frame_of(number));
  }
  EXPECT_TRUE(used.contains(marked)) << "the frame was lost";
  expect_calm();
}

TEST_P(MarksTest, EveryGroupsMarkIsLookedAt) {
  make_file(4, 7, 16);
  ASSERT_EQ(read(0, 0, page), part(0, page));
  const std::uint32_t frame = frame_of(0);
  for (std::uint32_t group = 0; group < 7; ++group) {
    EXPECT_FALSE(is_marked(memory->view(), frame));
    const HazardGuard mark(memory->view(), group, frame);
    EXPECT_TRUE(is_marked(memory->view(), frame));
    EXPECT_FALSE(is_marked(memory->view(), frame + 1));
  }
}

// M1 itself: of a reader and a party that takes the frame, at least one sees the other. Without
// barrier_everywhere() both look too early in some hundred rounds of a million.
TEST_P(MarksTest, ReaderAndTakerDoNotMissEachOther) {
  make_file(1, 2, 1);
  const View& view = memory->view();
  // Each side clears what the other one sets: then its own store is slow, its look fast, and a
  // processor that may reorder them does.
  const DeviceRef<std::uint64_t> state(view.frame(0).state);
  const DeviceRef<std::uint32_t> mark(view.mark(1).frame);
  state.store(0, relaxed);
  std::atomic<std::uint64_t> rounds{scaled(300'000)};
  // Where other programs want the CPUs, each meeting may take a turn of them.
  const auto late = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  std::atomic<std::uint64_t> reader_at{0};
  std::atomic<std::uint64_t> taker_at{0};
  const auto meet = [](std::atomic<std::uint64_t>& mine, std::atomic<std::uint64_t>& other,
                       std::uint64_t round) {
    mine.store(round);
    for (int looks = 0; other.load() < round; ++looks)
      if (looks > 1000) std::this_thread::yield();
  };
  std::atomic<bool> reader_saw{false};
  std::thread reader([&] {
    for (std::uint64_t round = 0; round < rounds; ++round) {
      meet(reader_at, taker_at, 3 * round + 1);
      {
        const HazardGuard marked(view, 1, 0);
        reader_saw.store((state.load(seq_cst) & State::taken) != 0, std::memory_order_relaxed);
        meet(reader_at, taker_at, 3 * round + 2);
      }
      meet(reader_at, taker_at, 3 * round + 3);
      state.store(0, relaxed);
    }
  });
  std::uint64_t missed = 0;
  for (std::uint64_t round = 0; round < rounds; ++round) {
    meet(taker_at, reader_at, 3 * round + 1);
    if (view.barriers_everywhere) {
      state.store(State::taken, relaxed);
    } else {
      state.store(State::taken, seq_cst);
    }
    before_looking_at_marks(view, hooks);
    const bool taker_saw = is_marked(view, 0);
    meet(taker_at, reader_at, 3 * round + 2);
    if (!taker_saw && !reader_saw.load(std::memory_order_relaxed)) ++missed;
    if (std::chrono::steady_clock::now() > late) rounds = round + 1;
    meet(taker_at, reader_at, 3 * round + 3);
    mark.store(0, relaxed);
  }
  reader.join();
  EXPECT_EQ(missed, 0U);
}

// A barrier interrupts every thread that reads: it is made for many frames at once, also where most
// pages are in use all the time.
TEST_P(MarksTest, ABarrierIsMadeForManyFrames) {
  constexpr std::uint32_t frames = 1024;
  constexpr std::size_t read_once = 256;
  make_file(frames, 1, frames + read_once);
  static unsigned barriers = 0;
  barriers = 0;
  hooks.barrier_everywhere = [] { ++barriers; };
  const auto read_number = [&](std::size_t number) {
    return read(0, number * page, page) == part(number * page, page);
  };
  for (std::size_t number = 0; number < frames; ++number)
    ASSERT_TRUE(read_number(number));
  for (std::size_t other = 0; other < read_once; ++other) {
    for (std::size_t number = 0; number < frames; ++number) {
      ASSERT_TRUE(number % 4 == 0 || read_number(number));
    }
    ASSERT_TRUE(read_number(frames + other));
  }
  const std::uint64_t evictions = memory->view().counters(0).evictions;
  EXPECT_GE(evictions, read_once);
  EXPECT_EQ(barriers > 0, memory->view().barriers_everywhere);
  EXPECT_LE(barriers, evictions / 12);
  expect_calm();
}

// Readers hit and miss at random while pages come and go: each page's bytes identify it.
TEST_P(MarksTest, HitsBesideEvictionsGetTheRightBytes) {
  constexpr std::uint32_t threads = 4;
  constexpr std::size_t pages = 48;
  make_file(16, threads, pages);
  std::atomic<bool> wrong{false};
  std::atomic<std::uint64_t> hits{0};
  test::at_once("readers", threads, [&](std::uint32_t group) {
    test::Random random(group + 1);
    std::string got(page, '?');
    for (std::uint64_t i = scaled(60'000); i > 0 && !wrong; --i) {
      const std::size_t number = random.below(pages);
      if (hit(group, got.data(), page, number * page)) {
        hits.fetch_add(1, std::memory_order_relaxed);
      } else if (caches[group]->read(0, 1, got.data(), page, number * page) !=
                 static_cast<std::int64_t>(page)) {
        wrong = true;
      }
      if (data.compare(number * page, page, got) != 0) wrong = true;
    }
  });
  EXPECT_FALSE(wrong);
  EXPECT_GT(hits, 0U);
  expect_calm();
}

INSTANTIATE_TEST_SUITE_P(Barriers, MarksTest,
                         testing::Values(Barriers::everywhere, Barriers::of_readers),
                         [](const auto& each) {
                           return each.param == Barriers::everywhere ? "Everywhere" : "OfReaders";
                         });

}  // namespace
}  // namespace ferry::device::cache
