// Views of cached pages: lifetime and contents, and missing pages copied in by a group.
#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "support/files.hpp"
#include "support/page_cache_rig.hpp"
#include "support/within.hpp"

namespace ferry::device::cache {
namespace {

using test::page;
using test::pattern;

class ViewsTest : public test::OneFileTest {
 protected:
  static std::string seen(const PinnedView& view) {
    return {reinterpret_cast<const char*>(view.data), view.bytes};
  }
};

TEST_F(ViewsTest, AViewShowsThePageUntilItIsReleased) {
  make_file(8, 200);
  PinnedView view;
  ASSERT_EQ(caches[0]->hold(0, 1, 3 * page + 100, 10 * page, view).value, page - 100);
  EXPECT_EQ(seen(view), data.substr(3 * page + 100, page - 100));
  for (std::size_t at = 0; at < data.size(); at += page)
    expect_read(at, page);
  EXPECT_EQ(seen(view), data.substr(3 * page + 100, page - 100)) << "evicted while held";
  write(0, "cached", 3 * page + 200);
  outside_write(0, "outside", 3 * page + 300);
  EXPECT_EQ(seen(view).substr(100, 6), "cached");
  EXPECT_EQ(seen(view).substr(200, 7), "outside");
  release_view(memory->view(), 0, view);
  EXPECT_EQ(view.data, nullptr);
  release_view(memory->view(), 0, view);
  EXPECT_EQ(memory->view().shared().held_pages, 0U);
  expect_calm();
}

TEST_F(ViewsTest, AViewEndsWhereTheFileEnds) {
  make(8, 1, 1);
  put(0, pattern(page + 50, 1));
  PinnedView view;
  EXPECT_EQ(caches[0]->hold(0, 1, page, page, view).value, 50);
  release_view(memory->view(), 0, view);
  EXPECT_EQ(caches[0]->hold(0, 1, page + 50, page, view).value, 0);
  EXPECT_EQ(caches[0]->hold(0, 1, 0, 0, view).value, 0);
  EXPECT_EQ(view.data, nullptr);
  EXPECT_EQ(memory->view().shared().held_pages, 0U);
  storage->faults.reads_one_in = 1;
  EXPECT_EQ(caches[0]->hold(0, 1, 0, page, view).value, -EIO);
  EXPECT_EQ(memory->view().shared().held_pages, 0U);
  expect_calm();
}

TEST_F(ViewsTest, AViewOfAPartlyWrittenPageIsWhole) {
  make_file(8, 4);
  write(0, "abc", page + 10);
  data.replace(page + 10, 3, "abc");
  PinnedView view;
  // The written range exists already, but the page does not.
  ASSERT_EQ(caches[0]->hold(0, 1, page + 10, 3, view).value, 3);
  EXPECT_NE(memory->view().frame(view.frame).state & State::valid, 0U);
  EXPECT_EQ(seen(view), "abc");
  release_view(memory->view(), 0, view);
  expect_read(page, page);
  expect_calm();
}

// Each of its fills overlaps an outside call, unless none can begin, and the data to see is
// rewritten after each.
TEST_F(ViewsTest, AViewOfAPartlyWrittenPageGetsItsTurnBesideOutsideCalls) {
  make_file(8, 4, 2);
  write(0, "abc", 10);
  data.replace(10, 3, "abc");
  std::atomic<bool> filling{false};
  std::atomic<bool> done{false};
  std::atomic<unsigned> calls{0};
  std::thread other([&] {
    while (!done) {
      if (!filling.exchange(false)) {
        std::this_thread::yield();
        continue;
      }
      caches[1]->begin_outside(0, Pages{1, 2}, Pages{0, 1});
      ++calls;
      caches[1]->end_outside(0);
    }
  });
  std::uint32_t turns = 0;
  storage->after_read = [&] {
    DeviceRef<std::uint32_t> outside(memory->view().inode(0).outside);
    if (outside.load(acquire) >= Inode::outside_turn) {
      ++turns;
      return;
    }
    const unsigned before = calls;
    filling = true;
    while (calls == before)
      std::this_thread::yield();
  };
  PinnedView view;
  test::within_patience("a view beside outside calls",
                        [&] { ASSERT_EQ(caches[0]->hold(0, 1, 10, 3, view).value, 3); });
  done = true;
  other.join();
  storage->after_read = nullptr;
  EXPECT_EQ(seen(view), "abc");
  EXPECT_GT(turns, 0U);
  EXPECT_LE(calls, 2 * (tries_before_turn + 1)) << "two requests each: before and behind `abc`";
  release_view(memory->view(), 0, view);
  EXPECT_EQ(memory->view().inode(0).outside, 0U) << "a turn or a call was left behind";
  expect_calm();
}

TEST_F(ViewsTest, ViewsLeaveHalfTheCache) {
  make_file(8, 100);
  std::vector<PinnedView> views(5);
  for (std::size_t i = 0; i < 4; ++i)
    ASSERT_EQ(caches[0]->hold(0, 1, i * page, page, views[i]).value, page);
  EXPECT_EQ(caches[0]->hold(0, 1, 4 * page, page, views[4]).value, -EAGAIN);
  expect_read(0, 100 * page);
  release_view(memory->view(), 0, views[0]);
  EXPECT_EQ(caches[0]->hold(0, 1, 4 * page, page, views[4]).value, page);
  for (PinnedView& view : views)
    release_view(memory->view(), 0, view);
  expect_calm();
}

// The next call would wait for a place that only its own caller gives away.
TEST_F(ViewsTest, ViewsLeaveAPageOfAnyCache) {
  for (const std::uint32_t frames : {1U, 2U, 3U}) {
    make_file(frames, 4);
    std::vector<PinnedView> views(frames);
    std::uint32_t held = 0;
    while (held < frames && caches[0]->hold(0, 1, held * page, page, views[held]).value == page)
      ++held;
    EXPECT_EQ(held, frames / 2);
    test::within_patience("a read beside views", [&] { expect_read(3 * page, page); });
    write(0, "abc", 2 * page);
    for (PinnedView& view : views)
      release_view(memory->view(), 0, view);
    EXPECT_EQ(caches[0]->flush(0), 0);
    expect_calm();
  }
}

// ---- pages that a group copies itself ----

class PullsTest : public ViewsTest {
 protected:
  void make_file(std::uint32_t frames, std::size_t pages, std::uint32_t groups = 1) {
    ViewsTest::make_file(frames, pages, groups);
    storage->pull_limit = 4 * page;
  }
  // Like a group that copies: hold(), and the rest if a pull is needed.
  StepResult begin(std::size_t offset, std::size_t bytes) {
    return caches[0]->hold(0, 1, offset, bytes, view, &pull);
  }
  void copy() const {
    const View& pages = memory->view();
    for (std::uint32_t i = 0; i < pull.count; ++i)
      std::memcpy(pages.page(pull.frames[i]), pull.from + Pull::start_of(i, pages),
                  pull.bytes_of(i, pages));
  }
  StepResult end(std::size_t offset, std::size_t bytes) {
    return caches[0]->end_pull(pull, offset, bytes, view);
  }
  // Pulls, and has `wanted` bytes of it then.
  void pull_and_expect(std::size_t offset, std::size_t bytes, std::int64_t wanted) {
    ASSERT_EQ(begin(offset, bytes).step, Step::pulled);
    copy();
    ASSERT_EQ(end(offset, bytes).value, wanted);
  }
  void release() { release_view(memory->view(), 0, view); }
  void expect_all_calm() {
    EXPECT_EQ(memory->view().shared().held_pages, 0U);
    expect_calm();
  }

  PinnedView view;
  Pull pull;
};

TEST_F(PullsTest, AnAbsentPageIsPulledAndAPresentOneIsNot) {
  make_file(8, 8);
  ASSERT_EQ(begin(page + 10, 100).step, Step::pulled);
  EXPECT_EQ(pull.count, 1U);
  EXPECT_EQ(pull.bytes, page);
  EXPECT_NE(memory->view().frame(pull.frames[0]).state & State::filling, 0U);
  copy();
  ASSERT_EQ(end(page + 10, 100).value, 100);
  EXPECT_EQ(seen(view), data.substr(page + 10, 100));
  release();
  ASSERT_EQ(begin(page + 20, 100).value, 100);
  EXPECT_EQ(seen(view), data.substr(page + 20, 100));
  release();
  EXPECT_EQ(storage->reads, 1U);
  EXPECT_EQ(memory->counters().misses, 1U);
  expect_all_calm();
}

TEST_F(PullsTest, NeighboursAreOneRequestAsFarAsTheyAreAbsent) {
  make_file(24, 16);
  expect_read(6 * page, page);
  storage->reads = 0;
  pull_and_expect(4 * page, 4 * page, page);
  EXPECT_EQ(pull.count, 2U) << "the third is there";
  release();
  EXPECT_EQ(storage->reads, 1U);
  expect_read(4 * page, 2 * page);
  EXPECT_EQ(storage->reads, 1U);
  expect_all_calm();
}

TEST_F(PullsTest, MoreThanFitsIsFilledInTheUsualWay) {
  make_file(24, 16);
  EXPECT_EQ(begin(0, 5 * page).value, page);
  EXPECT_EQ(seen(view), data.substr(0, page));
  release();
  storage->pull_limit = page - 1;
  EXPECT_EQ(begin(8 * page, 10).value, 10);
  release();
  expect_all_calm();
}

TEST_F(PullsTest, BehindTheEndOfTheFileThereAreZeros) {
  make(8, 1, 1);
  data = pattern(page + 50, 1);
  put(0, data);
  storage->pull_limit = 4 * page;
  pull_and_expect(page - 1, 2 * page, 1);
  EXPECT_EQ(pull.count, 2U);
  EXPECT_EQ(pull.bytes, page + 50);
  release();
  ASSERT_EQ(begin(page, page).value, 50);
  EXPECT_EQ(seen(view), data.substr(page));
  const std::string behind(reinterpret_cast<const char*>(view.data) + 50, page - 50);
  EXPECT_EQ(behind, std::string(page - 50, '\0'));
  release();
  expect_all_calm();
}

TEST_F(PullsTest, AnErrorIsReportedAndTheNextOneSucceeds) {
  make_file(8, 8);
  storage->faults.reads_one_in = 1;
  EXPECT_EQ(begin(0, 100).value, -EIO);
  EXPECT_EQ(view.data, nullptr);
  expect_all_calm();
  storage->faults.reads_one_in = 0;
  pull_and_expect(0, 100, 100);
  release();
  expect_all_calm();
}

TEST_F(PullsTest, WhatWasPulledBesideAnOutsideCallIsThrownAway) {
  make_file(8, 8, 2);
  ASSERT_EQ(begin(0, 100).step, Step::pulled);
  const std::string fresh(100, 'n');
  const int handle = 1;
  Cache& other = *caches[1];
  other.begin_outside(0);
  storage->announce(handle, 0, fresh.size());
  const Piece piece{reinterpret_cast<unsigned char*>(const_cast<char*>(fresh.data())),
                    fresh.size()};
  ASSERT_EQ(storage->write(handle, &piece, 1, 0), 100);
  copy();
  EXPECT_EQ(end(0, 100).step, Step::again);
  EXPECT_EQ(view.data, nullptr);
  other.update(0, fresh.data(), fresh.size(), 0);
  other.end_outside(0);
  pull_and_expect(0, 100, 100);
  EXPECT_EQ(seen(view), fresh);
  release();
  expect_all_calm();
}

TEST_F(PullsTest, AFileThatWasCutMeanwhileHasNothingToShow) {
  make_file(8, 8);
  ASSERT_EQ(begin(3 * page, 100).step, Step::pulled);
  storage->cut(1, page);
  caches[0]->set_size(0, page);  // as the end of an outside call that this pull came after
  copy();
  const StepResult ended = end(3 * page, 100);
  EXPECT_EQ(ended.step, Step::done);
  EXPECT_EQ(ended.value, 0);
  EXPECT_EQ(view.data, nullptr);
  expect_all_calm();
}

TEST_F(PullsTest, OthersWaitForThePage) {
  make_file(8, 8, 2);
  ASSERT_EQ(begin(0, 100).step, Step::pulled);
  std::string got;
  std::thread reader([&] { got = read(0, 0, page, 1); });
  while (DeviceRef<std::uint64_t>(memory->view().counters(1).waits).load(relaxed) == 0)
    std::this_thread::yield();
  EXPECT_EQ(storage->reads, 1U);
  copy();
  ASSERT_EQ(end(0, 100).value, 100);
  test::within_patience("the reader", [&] { reader.join(); });
  EXPECT_TRUE(test::same_bytes(got, data.substr(0, page)));
  EXPECT_EQ(storage->reads, 1U);
  release();
  expect_all_calm();
}

TEST_F(PullsTest, ViewsLeaveHalfTheCache) {
  make_file(4, 8);
  std::vector<PinnedView> views(2);
  for (std::size_t i = 0; i < views.size(); ++i) {
    pull_and_expect(i * page, page, page);
    views[i] = view;
  }
  EXPECT_EQ(begin(4 * page, page).value, -EAGAIN);
  for (PinnedView& held : views)
    release_view(memory->view(), 0, held);
  expect_all_calm();
}

}  // namespace
}  // namespace ferry::device::cache
