// Background write-back, with the marks that start it and that make writers wait; failing
// write-backs; and all of the cache's work with each of its optimisations off.
#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "support/depth.hpp"
#include "support/files.hpp"
#include "support/page_cache_rig.hpp"
#include "support/within.hpp"

namespace ferry::device::cache {
namespace {

using test::MemoryFiles;
using test::page;
using test::pattern;
using test::Random;
using test::scaled;

class WriteBackTest : public test::PageCacheTest {
 protected:
  void SetUp() override { make(64, 1, 1); }
  std::uint64_t dirty() const { return memory->view().shared().dirty_pages; }
  // Up to `count` pages of the first file, until one is refused. Returns what was taken.
  std::string write_pages(std::size_t count) {
    std::string taken;
    for (std::size_t at = 0; at < count; ++at) {
      const std::string data = pattern(page, at);
      if (write(0, data, at * page) < 0) break;
      taken += data;
    }
    return taken;
  }
  // The first file can be written back, and holds this then.
  void expect_flushed(const std::string& wanted) {
    EXPECT_EQ(caches[0]->flush(0), 0);
    EXPECT_TRUE(test::same_bytes(storage->contents(1), wanted));
    expect_calm();
  }
  void fail_writes(int error, int handle = 0) const {
    storage->faults.error = error;
    storage->faults.handle = handle;
    storage->faults.writes_one_in = 1;
  }
};

TEST_F(WriteBackTest, BelowTheLowMarkNothingIsWritten) {
  write_pages(32);
  EXPECT_EQ(storage->writes, 0U);
  EXPECT_EQ(dirty(), 32U);
}

TEST_F(WriteBackTest, AboveItPagesAreWrittenInLargeRequests) {
  const std::string model = write_pages(60);
  EXPECT_EQ(model.size(), 60U * page);
  EXPECT_GT(storage->writes, 0U);
  EXPECT_LE(storage->writes, 20U);
  EXPECT_EQ(caches[0]->flush(0), 0);
  EXPECT_EQ(dirty(), 0U);
  EXPECT_TRUE(test::same_bytes(storage->contents(1), model));
  EXPECT_EQ(storage->written_bytes, model.size()) << "every byte once";
  expect_calm();
}

TEST_F(WriteBackTest, WritersWaitAtTheHighMark) {
  storage->faults.late = true;  // so that only waiting ends a flight
  for (std::size_t at = 0; at < 2000; ++at) {
    write(0, pattern(page, at), at * page);
    ASSERT_LE(dirty(), 49U) << "page " << at;
  }
  EXPECT_EQ(caches[0]->flush(0), 0);
  expect_calm();
}

TEST_F(WriteBackTest, AnErrorInTheBackgroundIsKeptForTheNextFlush) {
  fail_writes(ENOSPC);
  const std::string model = write_pages(40);
  const std::uint64_t taken = model.size() / page;
  caches[0]->settle();
  EXPECT_GT(memory->view().inode(0).write_errors, 0U);
  EXPECT_EQ(memory->view().inode(0).write_error, ENOSPC);
  EXPECT_GT(taken, 32U) << "the first error comes later than that";
  EXPECT_EQ(dirty(), taken) << "nothing is lost";
  storage->faults.writes_one_in = 0;
  expect_flushed(model);
}

// A handle closed meanwhile causes no error.
TEST_F(WriteBackTest, AClosedHandleKeepsItsPagesDirty) {
  memory->view().inode(0).write_handle = MemoryFiles::closed;
  const std::string model = write_pages(40);
  ASSERT_EQ(model.size(), 40U * page);
  caches[0]->settle();
  EXPECT_EQ(memory->view().inode(0).write_errors, 0U);
  EXPECT_EQ(dirty(), 40U);
  memory->view().inode(0).write_handle = 1;
  expect_flushed(model);
}

// Its last handle is closed now: none could write the page back.
TEST_F(WriteBackTest, WithoutAHandleNothingBecomesDirty) {
  memory->view().inode(0).write_handle = 0;
  EXPECT_EQ(write(0, "late", 0), -EBADF);
  EXPECT_EQ(dirty(), 0U);
  expect_calm();
}

// Data taken by a write-back keeps its place in the page's list, so that it fits back.
TEST_F(WriteBackTest, RangesOnTheirWayKeepTheirPlace) {
  make(4, 1, 1);
  Frame& frame = memory->view().frame(0);
  RangeList list(frame);
  for (std::uint32_t at = 0; at < ranges_max; ++at)
    ASSERT_TRUE(list.add(Range{at * 100, at * 100 + 10}));
  EXPECT_FALSE(list.add(Range{900, 910}));
  const Ranges taken = list.take();
  EXPECT_EQ(taken.count, ranges_max);
  EXPECT_EQ(frame.range_count, 0U);
  EXPECT_FALSE(list.add(Range{900, 910})) << "all places are taken";
  list.put_back(taken.list[2]);
  EXPECT_FALSE(list.add(Range{900, 910}));
  EXPECT_TRUE(list.add(Range{205, 290})) << "it becomes one with what is there";
  list.put_back(taken.list[0]);
  list.put_back(taken.list[3]);
  EXPECT_EQ(frame.range_count, 3U);
  EXPECT_EQ(frame.taken_count, 1U);
  list.all_back();
  EXPECT_TRUE(list.add(Range{900, 910})) << "one was written";
  EXPECT_FALSE(list.add(Range{700, 710}));
  list.cut(0);
  EXPECT_EQ(frame.range_count, 0U);
}

// Four ranges are in flight and will fail; beside them a page has no space for four others, whose
// writer waits until the write-back ends.
class FullLists : public WriteBackTest {
 protected:
  static constexpr std::size_t length = 10;

  void start(int error) {
    make(64, 1, 2);
    storage->faults.error = error;
    model.assign(page, '\0');
  }
  // Repeats refused writes: a writer without a place also gets the write-back's error.
  void put(std::size_t at, std::uint32_t group) {
    const std::string data = pattern(length, at + 1);
    std::int64_t got = -1;
    while (got < 0)
      got = write(0, data, at, group);
    ASSERT_EQ(got, static_cast<std::int64_t>(length));
    model.replace(at, length, data);
  }
  void put_four(std::size_t first, std::uint32_t group) {
    for (std::size_t at = first; at < first + 400; at += 100)
      put(at, group);
  }
  // The next write-back fails, and while it is in flight a thread writes four more ranges.
  void flush_beside_writes() {
    storage->at_next_write = [this] {
      writer = std::thread([this] {
        put_four(50, 1);
        written = true;
      });
      // Either they wait for this, or they are there soon.
      test::eventually([this] { return written.load(); }, std::chrono::milliseconds(50));
      storage->faults.writes_one_in = 1;
      failing = true;
    };
    EXPECT_NE(caches[0]->flush(0), 0);
    EXPECT_TRUE(failing);
    storage->faults.writes_one_in = 0;
    test::within_patience("a writer beside a write-back", [this] { writer.join(); });
    EXPECT_EQ(caches[0]->flush(0), 0);
    const std::string there = storage->contents(1);
    EXPECT_TRUE(test::same_bytes(there, model.substr(0, there.size())));
    EXPECT_GE(there.size(), 360U);
    EXPECT_EQ(storage->strangers, 0U);
    EXPECT_EQ(dirty(), 0U);
    expect_calm();
  }

  std::string model;
  std::thread writer;
  std::atomic<bool> written{false};
  bool failing = false;
};

TEST_F(FullLists, LoseNothingWhenAWriteBackFails) {
  start(ENOSPC);
  put_four(0, 0);
  flush_beside_writes();
}

TEST_F(FullLists, LoseNothingWhenAFlightFails) {
  start(EIO);
  put(0, 0);
  flush_beside_writes();
}

TEST_F(FullLists, LoseNothingWhenTheHandleIsClosedUnderIt) {
  start(EBADF);
  put_four(0, 0);
  flush_beside_writes();
  EXPECT_EQ(memory->view().inode(0).write_errors, 0U) << "no error of the storage";
}

// ---- a file whose write-back fails

class FailingFile : public WriteBackTest {
 protected:
  static constexpr std::uint32_t frames = 64;

  // File 0 makes pages dirty until a write fails; the others do not fail.
  void fill() {
    make(frames, 3, 1);
    fail_writes(ENOSPC, 1);
    model = write_pages(4 * frames);
    EXPECT_EQ(write(0, pattern(page, 1), model.size()), -ENOSPC);
    caches[0]->settle();
  }
  std::uint64_t requests_of(const std::function<void()>& work) const {
    const std::uint64_t before = storage->write_requests;
    work();
    return storage->write_requests - before;
  }
  std::string model;  // what was acknowledged
};

TEST_F(FailingFile, HoldsAPartOfTheCacheAndItsWritersGetTheError) {
  fill();
  EXPECT_GE(dirty(), frames / 2);
  EXPECT_LE(dirty(), frames - frames / 4) << "others have the rest";
  EXPECT_TRUE(test::same_bytes(read(0, 0, model.size()), model));
  // Where it is dirty already it takes more; that is no page more.
  EXPECT_EQ(write(0, pattern(page, 0), 0), page);
  EXPECT_EQ(write(0, "x", model.size() + 9 * page), -ENOSPC);
  storage->faults.writes_one_in = 0;
  EXPECT_EQ(write(0, "x", model.size()), 1) << "there is room again";
  expect_flushed(model + "x");
}

TEST_F(FailingFile, IsAskedWithOneRequest) {
  fill();
  EXPECT_LE(storage->write_requests, 70U) << "of filling";
  EXPECT_EQ(requests_of([&] { EXPECT_EQ(caches[0]->flush(0), -ENOSPC); }), 1U);
  EXPECT_EQ(requests_of([&] { EXPECT_EQ(caches[0]->flush(0), -ENOSPC); }), 1U);
  storage->faults.writes_one_in = 0;
  EXPECT_LE(requests_of([&] { EXPECT_EQ(caches[0]->flush(0), 0); }), 4U);
  EXPECT_TRUE(test::same_bytes(storage->contents(1), model));
  expect_calm();
}

TEST_F(FailingFile, HarmsNoOtherFile) {
  fill();
  const std::string other = pattern(3 * frames * page, 5);
  put(1, other);
  const auto work = [&] {
    for (std::size_t at = 0; at < other.size(); at += page)
      ASSERT_TRUE(test::same_bytes(read(1, at, page), other.substr(at, page)));
    ASSERT_EQ(write(2, other, 0), static_cast<std::int64_t>(other.size()));
    ASSERT_EQ(caches[0]->flush(2), 0);
  };
  const std::uint64_t failed = storage->failed_writes;
  work();
  EXPECT_EQ(storage->failed_writes, failed) << "nobody else asks for the failing one";
  EXPECT_TRUE(test::same_bytes(storage->contents(3), other));
  expect_calm();
}

// Every frame is dirty before the first write-back is asked for.
TEST_F(FailingFile, LeavesOthersAWayPastTheCache) {
  for (const std::uint32_t few : {1U, 2U, 3U}) {
    make(few, 3, 1);
    fail_writes(ENOSPC, 1);
    model = write_pages(4 * frames);
    const std::string other = pattern(5 * page, 7);
    put(1, other);
    EXPECT_TRUE(test::same_bytes(read(1, 100, 3 * page), other.substr(100, 3 * page)));
    EXPECT_EQ(write(2, other, 77), static_cast<std::int64_t>(other.size()));
    EXPECT_TRUE(test::same_bytes(read(2, 77, other.size()), other));
    EXPECT_EQ(caches[0]->flush(2), 0);
    EXPECT_TRUE(test::same_bytes(storage->contents(3).substr(77), other));
    storage->faults.writes_one_in = 0;
    expect_flushed(model);
  }
}

// All that is left beside its page and beside views is another file's, on its way to the storage:
// that file's calls wait for it.
TEST_F(FailingFile, LeavesAnotherThePlacesOfItsOwnPages) {
  for (const bool late : {false, true}) {
    make(8, 2, 1);
    fail_writes(ENOSPC, 1);
    ASSERT_EQ(write(0, pattern(page, 0), 0), page);
    ASSERT_EQ(caches[0]->flush(0), -ENOSPC);
    std::string other = pattern(20 * page, 5);
    put(1, other);
    std::vector<PinnedView> views(4);
    for (std::size_t i = 0; i < 3; ++i)
      ASSERT_EQ(caches[0]->hold(1, 2, (10 + i) * page, page, views[i]).value, page);
    storage->faults.late = late;
    other.replace(0, 4 * page, pattern(4 * page, 6));
    ASSERT_EQ(write(1, other.substr(0, 4 * page), 0), 4 * page);
    ASSERT_EQ(memory->view().shared().flights, 1U);
    EXPECT_EQ(caches[0]->hold(1, 2, 13 * page, page, views[3]).value, page);
    for (PinnedView& view : views)
      release_view(memory->view(), 0, view);
    EXPECT_TRUE(test::same_bytes(read(1, 0, other.size()), other));
    EXPECT_EQ(caches[0]->flush(1), 0);
    EXPECT_TRUE(test::same_bytes(storage->contents(2), other));
    expect_calm();
  }
}

// Everything is right with any combination of the optimisations.
TEST_F(WriteBackTest, SwitchesChangeNoByte) {
  Random random;
  for (unsigned bits = 0; bits < 64; ++bits) {
    const auto on = [&](unsigned bit) { return (bits >> bit & 1U) != 0; };
    make(random.one_in(2) ? 5 : 40, 1, 1, {on(0), on(1), on(2), on(3), on(4), on(5)});
    std::string model;
    for (std::uint64_t step = 0; step < scaled(500); ++step) {
      const std::size_t offset = random.below(30 * page);
      const std::size_t length = random.one_in(8) ? random.below(20 * page) : random.below(page);
      if (random.one_in(2)) {
        const std::string data = pattern(length + 1, step);
        ASSERT_EQ(write(0, data, offset), static_cast<std::int64_t>(data.size()));
        test::write_to(model, data, offset);
      } else {
        const std::string wanted = offset < model.size() ? model.substr(offset, length) : "";
        ASSERT_TRUE(test::same_bytes(read(0, offset, length), wanted)) << "switches " << bits;
      }
    }
    ASSERT_EQ(caches[0]->flush(0), 0);
    ASSERT_TRUE(test::same_bytes(storage->contents(1), model)) << "switches " << bits;
    ASSERT_EQ(storage->strangers, 0U);
    expect_calm();
  }
}

}  // namespace
}  // namespace ferry::device::cache
