// The page cache over in-memory files, compared with plain strings, with caches of a few pages so
// that eviction and write-back run all the time.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "support/depth.hpp"
#include "support/files.hpp"
#include "support/page_cache_rig.hpp"
#include "support/within.hpp"

namespace ferry::device::cache {
namespace {

using test::page;
using test::PageCacheTest;
using test::pattern;
using test::Random;
using test::scaled;

TEST_F(PageCacheTest, ReadsWhatTheFileHoldsAndEndsWhereItEnds) {
  make(8, 1, 1);
  const std::string data = pattern(3 * page + 100, 1);
  put(0, data);
  EXPECT_EQ(read(0, 0, data.size() + 50), data);
  EXPECT_EQ(read(0, data.size(), 10), "");
  EXPECT_EQ(read(0, page - 1, 2), data.substr(page - 1, 2));
  expect_calm();
}

TEST_F(PageCacheTest, ARunOfAbsentPagesIsOneRequest) {
  make_file(16, 8);
  read(0, 0, 6 * page);
  EXPECT_EQ(storage->reads, 1U);
  EXPECT_EQ(memory->counters().misses, 6U);
  read(0, 0, 8 * page);
  EXPECT_EQ(storage->reads, 2U);
  EXPECT_EQ(memory->counters().hits, 6U);
  EXPECT_EQ(memory->counters().fill_bytes, 8U * page);
}

TEST_F(PageCacheTest, AWriteToAnAbsentPageReadsNothingAndWritesNothingElse) {
  std::string model = make_file(8, 2);
  EXPECT_EQ(write(0, "hello", 100), 5);
  EXPECT_EQ(storage->reads, 0U);
  EXPECT_EQ(storage->writes, 0U);
  EXPECT_EQ(read(0, 100, 5), "hello");
  EXPECT_EQ(storage->reads, 0U);
  EXPECT_EQ(caches[0]->flush(0), 0);
  EXPECT_EQ(storage->written_bytes, 5U);
  EXPECT_EQ(storage->strangers, 0U);
  model.replace(100, 5, "hello");
  EXPECT_EQ(storage->contents(1), model);
  EXPECT_EQ(read(0, 0, 2 * page), model);
}

TEST_F(PageCacheTest, TheGapsOfAWrittenPageAreReadOnDemand) {
  std::string model = make_file(8, 2);
  for (const std::size_t at : {0U, 500U, 2000U, 4000U}) {
    write(0, "abc", at);
    model.replace(at, 3, "abc");
  }
  EXPECT_EQ(storage->writes, 0U);
  EXPECT_EQ(read(0, 0, page), model.substr(0, page));
  EXPECT_EQ(storage->writes, 0U) << "reading needs no write-back";
  // One more range than a page can keep.
  write(0, "xyz", 3000);
  model.replace(3000, 3, "xyz");
  EXPECT_EQ(storage->written_bytes, 12U);
  EXPECT_EQ(read(0, 0, page), model.substr(0, page));
  EXPECT_EQ(caches[0]->flush(0), 0);
  EXPECT_EQ(storage->contents(1), model);
  EXPECT_EQ(storage->strangers, 0U);
}

TEST_F(PageCacheTest, NeighbouringDirtyPagesAreOneRequest) {
  make(64, 1, 1);
  for (std::size_t at = 0; at < 20 * page; at += 1000)
    write(0, pattern(1000, at), at);
  EXPECT_EQ(storage->writes, 0U);
  EXPECT_EQ(caches[0]->flush(0), 0);
  EXPECT_EQ(storage->writes, 1U);
  EXPECT_EQ(memory->view().inode(0).dirty_pages, 0U);
  EXPECT_EQ(caches[0]->flush(0), 0);
  EXPECT_EQ(storage->writes, 1U);
}

TEST_F(PageCacheTest, AHoleReadsAsZeros) {
  make(8, 1, 1);
  put(0, "start");
  write(0, "end", 5 * page + 10);
  std::string model = "start";
  model.resize(5 * page + 10, '\0');
  model += "end";
  EXPECT_EQ(read(0, 0, 10 * page), model);
  truncate(0, 3 * page + 7);
  model.resize(3 * page + 7);
  EXPECT_EQ(read(0, 0, 10 * page), model);
  truncate(0, 4 * page);
  model.resize(4 * page, '\0');
  EXPECT_EQ(read(0, 0, 10 * page), model);
  expect_calm();
}

TEST_F(PageCacheTest, AScanLeavesWhatIsUsedOften) {
  make(32, 2, 1);
  put(0, pattern(8 * page, 1));
  put(1, pattern(400 * page, 2));
  const auto use = [&] { read(0, 0, 8 * page); };
  use();
  use();
  const std::uint64_t before = storage->reads;
  for (std::size_t at = 0; at < 400; at += 8) {
    read(1, at * page, 8 * page);
    use();
  }
  EXPECT_EQ(storage->reads - before, 50U) << "the hot pages were read again";
}

TEST_F(PageCacheTest, AFailedReadIsReportedAndTheNextOneSucceeds) {
  const std::string data = make_file(8, 4);
  storage->faults.reads_one_in = 1;
  EXPECT_EQ(read(0, 0, page), "error -5");
  storage->faults.reads_one_in = 0;
  EXPECT_EQ(read(0, 0, 4 * page), data);
  expect_calm();
}

// A storage may transfer less when something fails half way: that is not the end of the file.
TEST_F(PageCacheTest, AShortReadIsNotTheEndOfTheFile) {
  make(16, 1, 1);
  std::string model = pattern(10 * page + 100, 1);
  put(0, model);
  storage->faults.short_reads_one_in = 2;
  for (int round = 0; round < 20; ++round) {
    EXPECT_TRUE(test::same_bytes(read(0, 0, 11 * page), model));
    caches[0]->begin_outside(0);
    caches[0]->drop(0);
    caches[0]->end_outside(0);
    // The gaps of a written page are read as well.
    write(0, "abc", 3 * page + 200);
    model.replace(3 * page + 200, 3, "abc");
    EXPECT_TRUE(test::same_bytes(read(0, 3 * page, page), model.substr(3 * page, page)));
    EXPECT_EQ(caches[0]->flush(0), 0);
  }
  storage->faults.short_reads_one_in = 1;
  storage->faults.reads_one_in = 2;
  const std::string got = read(0, 0, 11 * page);
  EXPECT_TRUE(got.starts_with("error") || got == model.substr(0, got.size()));
  expect_calm();
}

TEST_F(PageCacheTest, WhatCouldNotBeWrittenStaysDirty) {
  make(8, 1, 1);
  storage->faults.error = ENOSPC;
  storage->faults.writes_one_in = 1;
  const std::string data = pattern(3 * page, 1);
  EXPECT_EQ(write(0, data, 0), static_cast<std::int64_t>(data.size()));
  EXPECT_EQ(caches[0]->flush(0), -ENOSPC);
  EXPECT_EQ(memory->view().inode(0).write_error, ENOSPC);
  EXPECT_EQ(memory->view().inode(0).dirty_pages, 3U);
  EXPECT_EQ(read(0, 0, data.size()), data);
  // Above the low mark no more pages become dirty: an error, not a hang.
  EXPECT_EQ(write(0, pattern(20 * page, 2), 3 * page), 2 * page);
  EXPECT_EQ(write(0, "x", 5 * page), -ENOSPC);
  storage->faults.writes_one_in = 0;
  EXPECT_EQ(caches[0]->flush(0), 0);
  EXPECT_EQ(storage->contents(1), data + pattern(20 * page, 2).substr(0, 2 * page));
  expect_calm();
}

// Random calls on a few files, byte for byte against strings.
TEST_F(PageCacheTest, DoesWhatPlainFilesDo) {
  Random random;
  for (const std::uint32_t frames : {1U, 2U, 3U, 7U, 40U}) {
    constexpr std::uint32_t files = 3;
    constexpr std::size_t size_max = 20 * page;
    make(frames, files, 1);
    std::vector<std::string> model(files);
    for (std::uint64_t step = 0; step < scaled(20'000); ++step) {
      const auto file = static_cast<std::uint32_t>(random.below(files));
      std::string& bytes = model[file];
      const std::size_t offset =
          random.one_in(3) ? random.below(20) * page : random.below(size_max);
      const std::size_t length = random.one_in(4) ? page : random.below(3 * page);
      switch (random.below(20)) {
        case 0:
          truncate(file, offset);
          bytes.resize(offset, '\0');
          break;
        case 1:
          ASSERT_EQ(caches[0]->flush(file), 0);
          ASSERT_TRUE(test::same_bytes(storage->contents(static_cast<int>(file) + 1), bytes));
          break;
        case 2: {
          const std::string data = pattern(std::max<std::size_t>(length, 1), step);
          outside_write(file, data, offset);
          test::write_to(bytes, data, offset);
          break;
        }
        case 3:
        case 4:
        case 5:
        case 6:
        case 7:
        case 8:
        case 9: {
          const std::string data = pattern(random.one_in(2) ? random.below(50) + 1 : length, step);
          if (data.empty()) break;
          ASSERT_EQ(write(file, data, offset), static_cast<std::int64_t>(data.size()));
          test::write_to(bytes, data, offset);
          break;
        }
        default: {
          const std::string wanted = offset < bytes.size() ? bytes.substr(offset, length) : "";
          ASSERT_TRUE(test::same_bytes(read(file, offset, length), wanted)) << "step " << step;
        }
      }
      ASSERT_EQ(storage->strangers, 0U) << "step " << step;
    }
    expect_calm();
  }
}

// Threads own stripes of the same files, many per page. A thread must read back what it wrote, and
// at the end storage must have everything.
class ManyThreads : public PageCacheTest, public testing::WithParamInterface<std::uint32_t> {
 protected:
  static constexpr std::uint32_t files = 2;
  static constexpr std::size_t stripe = 300;
  static constexpr std::size_t stripes = 600;  // of each file

  void work(std::uint32_t index, std::uint32_t threads, std::uint64_t steps, Random& random) {
    std::vector<std::string> mine(files * stripes);
    for (std::uint64_t step = 0; step < steps && !failed; ++step) {
      const auto file = static_cast<std::uint32_t>(random.below(files));
      const std::size_t number = random.below(stripes / threads) * threads + index;
      std::string& model = mine[file * stripes + number];
      const std::size_t offset = number * stripe;
      if (random.one_in(60)) {
        check(caches[index]->flush(file) == 0, "flush");
      } else if (random.one_in(20)) {
        model = pattern(stripe, random.bits());
        outside_write(file, model, offset, index);
      } else if (random.one_in(2)) {
        model = pattern(stripe, random.bits());
        check(write(file, model, offset, index) == static_cast<std::int64_t>(stripe), "write");
      } else if (!model.empty()) {
        check(read(file, offset, stripe, index) == model, "read");
      }
    }
    const std::lock_guard lock(mutex);
    for (std::size_t i = 0; i < mine.size(); ++i)
      if (!mine[i].empty()) all[i] = mine[i];
  }
  void check(bool right, const char* what) {
    if (right || failed.exchange(true)) return;
    ADD_FAILURE() << what;
  }

  std::atomic<bool> failed{false};
  std::mutex mutex;
  std::map<std::size_t, std::string> all;
};

TEST_P(ManyThreads, KeepEveryByte) {
  constexpr std::uint32_t threads = 4;
  make(GetParam(), files, threads);
  storage->faults.delays = true;
  Random random;
  test::at_once("threads on a page cache", threads, random,
                [this](std::uint32_t i, Random& own) { work(i, threads, scaled(40'000), own); });
  for (std::uint32_t file = 0; file < files; ++file)
    ASSERT_EQ(caches[0]->flush(file), 0);
  EXPECT_EQ(storage->strangers, 0U);
  for (const auto& [index, bytes] : all) {
    const std::string contents = storage->contents(static_cast<int>(index / stripes) + 1);
    ASSERT_EQ(contents.substr(index % stripes * stripe, stripe), bytes) << "stripe " << index;
  }
  expect_calm();
}

INSTANTIATE_TEST_SUITE_P(Frames, ManyThreads, testing::Values(4U, 9U, 30U, 200U));

// Faults of published GPU caches: a page loaded twice, and a page evicted while in use.
TEST_F(PageCacheTest, NoPageIsLoadedTwice) {
  constexpr std::uint32_t threads = 4;
  constexpr std::uint32_t pages = 100;
  for (std::uint64_t round = 0; round < scaled(100); ++round) {
    make(256, 1, threads);
    storage->faults.delays = true;
    const std::string data = pattern(pages * page, round);
    put(0, data);
    std::atomic<int> wrong{0};
    test::at_once("readers", threads, [&](std::uint32_t i) {
      for (std::size_t at = 0; at + 3 * page <= data.size(); at += (i + 1) * page / 2)
        if (read(0, at, 3 * page, i) != data.substr(at, 3 * page)) ++wrong;
    });
    ASSERT_EQ(wrong, 0);
    for (const auto& [where, times] : storage->loads)
      ASSERT_EQ(times, 1U) << "page at " << where.second;
    expect_calm();
  }
}

TEST_F(PageCacheTest, APinnedPageStays) {
  make(6, 2, 2);
  put(0, pattern(page, 1));
  put(1, pattern(500 * page, 2));
  read(0, 0, page);
  const Frames frames(memory->view(), hooks);
  const std::uint32_t pinned = frames.find(key_of(0, 0));
  ASSERT_NE(pinned, no_frame);
  for (std::size_t at = 0; at < 500; at += 2)
    read(1, at * page, 2 * page);
  const auto* bytes = reinterpret_cast<const char*>(memory->view().page(pinned));
  EXPECT_EQ(std::string(bytes, page), pattern(page, 1));
  EXPECT_EQ(frames.key(pinned), key_of(0, 0));
  frames.unpin(pinned);
  EXPECT_GT(memory->counters().evictions, 400U);
  expect_calm();
}

// ---- outside calls beside readers and writers -------------------------------------------------

// Calls of another group, which end before this returns.
template <class Cache>
void make_outside_calls(Cache& cache, std::uint32_t count, const Pages& changed) {
  std::thread([&] {
    for (; count > 0; --count) {
      cache.begin_outside(0, changed, changed);
      cache.end_outside(0);
    }
  }).join();
}

TEST_F(PageCacheTest, AnOutsideCallOutdatesFillsOfItsPagesOnly) {
  const std::string data = make_file(64, 40, 2);
  Pages changed;
  int calls = 0;
  storage->after_read = [&] {
    if (calls++ == 0) make_outside_calls(*caches[1], 1, changed);
  };
  const auto reads_of = [&](std::size_t at, std::size_t bytes) {
    calls = 0;
    const std::uint64_t before = storage->reads;
    EXPECT_TRUE(test::same_bytes(read(0, at, bytes), data.substr(at, bytes)));
    return storage->reads - before;
  };
  changed = Pages{3, 5};
  EXPECT_EQ(reads_of(0, 3 * page), 1U) << "before it";
  EXPECT_EQ(reads_of(5 * page, page), 1U) << "behind it";
  EXPECT_EQ(reads_of(4 * page, page), 2U) << "one of its pages";
  changed = Pages{20, Pages{}.end};
  EXPECT_EQ(reads_of(18 * page, 2 * page), 1U);
  EXPECT_EQ(reads_of(20 * page, page), 2U);
  EXPECT_EQ(reads_of(30 * page, 5 * page), 2U);
  storage->after_read = nullptr;
  expect_calm();
}

// More calls than are remembered, none on the page: then it is read once more.
TEST_F(PageCacheTest, ManyOutsideCallsDuringAFillOutdateIt) {
  const std::string data = make_file(8, 1, 2);
  std::uint32_t calls = 0;
  storage->after_read = [&] {
    make_outside_calls(*caches[1], std::exchange(calls, 0), Pages{5, 6});
  };
  calls = Inode::outside_kept - 1;
  EXPECT_EQ(read(0, 0, page), data);
  EXPECT_EQ(storage->reads, 1U);
  truncate(0, 0);
  put(0, data);
  calls = Inode::outside_kept;
  EXPECT_EQ(read(0, 0, page), data);
  EXPECT_EQ(storage->reads, 3U);
  storage->after_read = nullptr;
}

// Calls without end on the very page that is wanted.
TEST_F(PageCacheTest, AReaderGetsItsTurnBesideOutsideCalls) {
  for (const bool pulls : {false, true}) {
    const std::string data = make_file(8, 1, 2);
    if (pulls) storage->pull_limit = page;
    constexpr std::uint64_t too_many = 100;
    std::atomic<std::uint64_t> calls{0};
    std::atomic<bool> done{false};
    std::thread other([&] {
      while (!done) {
        caches[1]->begin_outside(0);
        ++calls;
        caches[1]->end_outside(0);
      }
    });
    // The storage is slower than the calls: each read overlaps one, unless none can begin.
    storage->after_read = [&] {
      if (storage->reads > too_many) done = true;
      const std::uint64_t before = calls;
      for (int naps = 0; calls == before && !done && naps < 300; ++naps)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    };
    test::within_patience("a read beside outside calls", [&] {
      if (!pulls) {
        EXPECT_EQ(read(0, 0, page), data);
      } else {
        Cache& cache = *caches[0];
        PinnedView view;
        StepResult got = Step::again;
        while (got.step == Step::again) {
          Pull pull;
          got = cache.hold(0, 1, 0, page, view, &pull);
          if (got.step == Step::pulled) {
            std::memcpy(memory->view().page(pull.frames[0]), pull.from, page);
            got = cache.end_pull(pull, 0, page, view);
          }
        }
        EXPECT_EQ(got.value, page);
        EXPECT_EQ(std::string(reinterpret_cast<const char*>(view.data), page), data);
        release_view(memory->view(), 0, view);
      }
    });
    done = true;
    other.join();
    storage->after_read = nullptr;
    EXPECT_LE(storage->reads, tries_before_turn + 1);
    EXPECT_EQ(memory->view().inode(0).outside, 0U) << "a turn or a call was left behind";
    expect_calm();
  }
}

TEST_F(PageCacheTest, AWriterGetsItsTurnBesideOutsideCalls) {
  make(8, 1, 2);
  std::uint32_t& outside = memory->view().inode(0).outside;
  const auto turns = [&] {
    return DeviceRef<std::uint32_t>(outside).load(acquire) / Inode::outside_turn;
  };
  for (std::uint64_t round = 1; round <= 3; ++round) {
    caches[0]->begin_outside(0);
    std::thread writer([&] { EXPECT_EQ(write(0, "hello", round * page, 1), 5); });
    test::within_patience("a writer that asks for a turn", [&] {
      while (turns() == 0)
        std::this_thread::yield();
    });
    caches[0]->end_outside(0);
    // The next call comes immediately, and must wait for the earlier one.
    caches[0]->begin_outside(0);
    EXPECT_EQ(memory->view().inode(0).dirty_pages, round);
    caches[0]->end_outside(0);
    writer.join();
  }
  EXPECT_EQ(outside, 0U);
  expect_calm();
}

// A reader delayed until its file's record belongs to another file, any number of times.
TEST_F(PageCacheTest, AFillForARecordsFormerFileIsThrownAway) {
  const std::string data = make_file(8, 1, 2);
  int fills = 0;
  storage->after_read = [&] {
    DeviceRef<std::uint32_t> id(memory->view().inode(0).id);
    id.store(fills++ == 0 ? 1U << 20 : 0, release);
  };
  EXPECT_EQ(read(0, 0, page), data);
  EXPECT_EQ(fills, 2) << "what came for another number of the record is not used";
  storage->after_read = nullptr;
  expect_calm();
}

// More than 16 bits can count: a large GPU with a group per thread gets there on a header page.
TEST_F(PageCacheTest, APageBearsAPinAndAWriterOfEveryGroup) {
  make_file(8, 1);
  read(0, 0, page);
  const Frames frames(memory->view(), hooks);
  const std::uint32_t frame = frames.find(key_of(0, 0));
  ASSERT_NE(frame, no_frame);
  const std::uint64_t one = frames.state(frame).load(relaxed);
  ASSERT_EQ(one & State::pins, 1U);
  constexpr std::uint32_t many = (1U << 16) + 1;
  for (std::uint32_t i = 0; i < many; ++i) {
    ASSERT_EQ(frames.find(key_of(0, 0)), frame);
    frames.state(frame).fetch_add(State::one_writer, seq_cst);
  }
  const std::uint64_t now = frames.state(frame).load(relaxed);
  EXPECT_EQ(now & State::pins, many + 1);
  EXPECT_EQ((now & State::writers) / State::one_writer, many);
  EXPECT_EQ(now & ~(State::pins | State::writers), one & ~State::pins) << "a flag has changed";
  for (std::uint32_t i = 0; i < many; ++i) {
    frames.state(frame).fetch_sub(State::one_writer, release);
    frames.unpin(frame);
  }
  EXPECT_EQ(frames.state(frame).load(relaxed), one);
  frames.unpin(frame);
  expect_calm();
}

// Near the end of what a state word counts, where nothing gets, the page is still right.
TEST_F(PageCacheTest, TheLastPinsOfAPageChangeNothingElse) {
  const std::string data = make_file(8, 1);
  read(0, 0, page);
  const Frames frames(memory->view(), hooks);
  const std::uint32_t frame = frames.find(key_of(0, 0));
  const std::uint64_t others = State::pins - 8;
  frames.state(frame).fetch_add(others + others * State::one_writer, seq_cst);
  EXPECT_EQ(read(0, 10, 100), data.substr(10, 100));
  EXPECT_EQ(write(0, "hello", 0), 5);
  EXPECT_EQ(read(0, 0, 5), "hello");
  EXPECT_EQ(caches[0]->flush(0), 0);
  EXPECT_EQ(storage->contents(1), "hello" + data.substr(5));
  frames.state(frame).fetch_sub(others + others * State::one_writer, seq_cst);
  frames.unpin(frame);
  expect_calm();
}

// The tag of the list of free frames, at its end.
TEST_F(PageCacheTest, TheFreeListsTagBeginsAnew) {
  make(8, 1, 1);
  std::uint64_t& head = memory->view().shared().free_frames;
  head |= ~std::uint64_t{0} << frame_bits;
  const std::string data = pattern(20 * page, 1);
  put(0, data);
  EXPECT_EQ(read(0, 0, data.size()), data);
  truncate(0, page);
  EXPECT_EQ(read(0, 0, data.size()), data.substr(0, page));
  expect_calm();
}

// Every fill of a long call finds all frames in use, once. Its sleeps get longer with one wait, and
// not with all of the call's.
TEST_F(PageCacheTest, ALongCallDoesNotSleepForItsEarlierWaits) {
  static const View* watched = nullptr;
  static std::uint64_t sleeps;
  static bool in_use;
  static const auto use_all = [](bool use) {
    if (use == in_use) return;
    in_use = use;
    for (std::uint32_t frame = 0; frame < watched->layout.geometry.frames; ++frame) {
      DeviceRef<std::uint64_t> state(watched->frame(frame).state);
      use ? state.fetch_add(State::one_pin, seq_cst) : state.fetch_sub(State::one_pin, seq_cst);
    }
  };
  sleeps = 0;
  in_use = false;
  hooks.yield = [] { use_all(false); };
  hooks.park = [](const std::uint32_t*, std::uint32_t, std::uint64_t) {
    ++sleeps;
    use_all(false);
  };
  Switches switches;
  switches.readahead = false;
  const std::string data = make_file(4, 1000, 1, switches);
  watched = &memory->view();
  storage->after_read = [] { use_all(true); };
  EXPECT_TRUE(test::same_bytes(read(0, 0, data.size()), data));
  EXPECT_GE(storage->reads, 500U);
  EXPECT_EQ(sleeps, 0U);
  use_all(false);
  expect_calm();
}

// The page that a group was about to bring in has come while it looked.
TEST_F(PageCacheTest, ACallThatNeedsNoFrameTakesNone) {
  make(4, 1, 1);
  for (std::size_t at = 0; at < 2; ++at)
    write(0, pattern(page, at), at * page);
  read(0, 2 * page, page);
  const Frames frames(memory->view(), hooks);
  Counters& counters = memory->view().counters(0);
  const OutsideCalls outside(memory->view(), hooks);
  const Transfers<test::MemoryFiles> transfers(memory->view(), hooks, frames, *storage, counters);
  WriteBack<test::MemoryFiles> write_back(memory->view(), frames, transfers, *storage, counters, 0);
  Filling<test::MemoryFiles> filling(memory->view(), frames, outside, transfers, write_back,
                                     *storage, counters, 0);
  std::uint32_t none[run_max];
  bool stuck = false;
  const std::uint64_t dirty = memory->view().shared().dirty_pages;
  EXPECT_EQ(filling.take(0, none, 0, stuck), 0U);
  EXPECT_FALSE(stuck);
  EXPECT_EQ(storage->write_requests, 0U);
  EXPECT_EQ(memory->view().shared().dirty_pages, dirty);
  EXPECT_EQ(caches[0]->flush(0), 0);
  expect_calm();
}

// All frames are on their way from a storage that hangs, and its file was dropped meanwhile: once
// while it is open, once with its record given to a file of the other storage.
TEST_F(PageCacheTest, DroppedPagesOfAHungStorageKeepNobodyFromAnother) {
  for (const bool closed : {false, true}) {
    make(4, 3, 3);
    put(0, pattern(4 * page, 1));
    const std::string data = pattern(4 * page, 2);
    put(1, data);
    memory->view().inode(0).storage = 1;
    std::atomic<int> hanging{0};
    std::atomic<bool> hangs{true};
    storage->after_read = [&] {
      if (!hangs || hanging == 2) return;
      ++hanging;
      while (hangs)
        std::this_thread::yield();
    };
    std::vector<std::jthread> readers;
    for (std::uint32_t group = 0; group < 2; ++group)
      readers.emplace_back([&, group] { read(0, group * 2 * page, 2 * page, group); });
    ASSERT_TRUE(test::eventually([&] { return hanging == 2; }));
    caches[2]->forget(0);
    const DeviceRef<std::uint32_t> id(memory->view().inode(0).id);
    if (closed) {
      id.store(memory->view().layout.geometry.inodes, release);
      DeviceRef<std::uint32_t>(memory->view().inode(0).storage).store(0, relaxed);
    }
    std::string got;
    test::within_patience("a read beside a storage that hangs", [&] {
      got = read(1, 0, data.size(), 2);
      id.store(0, release);
      hangs = false;
      readers.clear();
    });
    EXPECT_TRUE(test::same_bytes(got, data));
    expect_calm();
  }
}

}  // namespace
}  // namespace ferry::device::cache
