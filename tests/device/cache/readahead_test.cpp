// Readahead: who gets it, and what happens to the pages.
#include <atomic>

#include <gtest/gtest.h>

#include "support/depth.hpp"
#include "support/page_cache_rig.hpp"
#include "support/within.hpp"

namespace ferry::device::cache {
namespace {

using test::page;
using test::Random;

class ReadaheadTest : public test::OneFileTest {
 protected:
  void read_in_steps_of(std::size_t bytes) {
    for (std::size_t at = 0; at < data.size(); at += bytes)
      expect_read(at, bytes);
  }
};

TEST_F(ReadaheadTest, ASequentialReaderHardlyWaits) {
  make_file(256, 200);
  read_in_steps_of(page);
  const Counters counters = memory->counters();
  EXPECT_EQ(counters.misses, 2U) << "the first page, and the one that shows the direction";
  EXPECT_EQ(counters.readahead_issued, 198U);
  EXPECT_EQ(counters.readahead_used, 198U);
  EXPECT_EQ(counters.readahead_wasted, 0U);
  EXPECT_LT(storage->reads, 70U) << "windows grow";
  expect_calm();
}

TEST_F(ReadaheadTest, SmallAndUnalignedReadsAreSequentialToo) {
  make_file(256, 200);
  for (std::size_t at = 100; at + 3001 < data.size(); at += 3001)
    expect_read(at, 3001);
  EXPECT_LE(memory->counters().misses, 3U);
  expect_calm();
}

TEST_F(ReadaheadTest, SoAreLargeOnes) {
  make_file(256, 240);
  read_in_steps_of(6 * page);
  EXPECT_LE(memory->counters().misses, 12U);
  expect_calm();
}

// A record's flights are numbered beyond what the sequence numbers of requests can count.
TEST_F(ReadaheadTest, FlightsAreNumberedOnWhereSequenceNumbersBeginAnew) {
  make_file(256, 200);
  const View& view = memory->view();
  for (std::uint32_t i = 0; i < view.layout.geometry.flights; ++i)
    view.flight(i).state = std::uint64_t{0xfffffffe} << 2 | Flight::free;
  read_in_steps_of(page);
  EXPECT_EQ(memory->counters().misses, 2U);
  EXPECT_EQ(memory->counters().readahead_used, 198U);
  expect_calm();
  EXPECT_GT(view.flight(0).state >> 2, 0x1'0000'0000U) << "0 is no sequence number";
  EXPECT_EQ(view.flight(0).state & 3, Flight::free);
}

TEST_F(ReadaheadTest, SeveralStreamsOfOneFile) {
  make_file(256, 1000);
  for (std::size_t step = 0; step < 100; ++step)
    for (const std::size_t start : {600U, 0U, 850U, 300U})
      expect_read((start + step) * page, page);
  EXPECT_LE(memory->counters().misses, 4U * 3U);
  expect_calm();
}

TEST_F(ReadaheadTest, AStridedReaderGetsWhatItWillWant) {
  make_file(256, 2000);
  for (std::size_t step = 0; step < 100; ++step)
    expect_read(step * 17 * page, 2 * page);
  const Counters counters = memory->counters();
  EXPECT_LE(counters.misses, 2U * 4U);
  EXPECT_LE(counters.readahead_issued, 200U + 64U) << "nothing between the pieces";
  expect_calm();
}

TEST_F(ReadaheadTest, ARandomReaderGetsNone) {
  make_file(256, 40'000);
  Random random;
  std::uint64_t reads = 0;
  for (int i = 0; i < 2000; ++i, ++reads)
    expect_read(random.below(39'999) * page, 100);
  // By chance a page follows one of the last eight.
  EXPECT_LE(memory->counters().readahead_issued, 40U);
}

TEST_F(ReadaheadTest, ItCanBeSwitchedOff) {
  Switches switches;
  switches.readahead = false;
  make_file(256, 100, 1, switches);
  read_in_steps_of(page);
  EXPECT_EQ(memory->counters().readahead_issued, 0U);
  EXPECT_EQ(memory->counters().misses, 100U);
}

TEST_F(ReadaheadTest, PrefetchBringsARange) {
  make_file(256, 100);
  caches[0]->prefetch(0, 1, 10 * page + 5, 30 * page);
  expect_read(10 * page, 31 * page);
  EXPECT_EQ(memory->counters().misses, 0U);
  EXPECT_EQ(memory->counters().readahead_used, 31U);
  // Nothing exists behind the end, and existing pages are not requested again.
  caches[0]->prefetch(0, 1, 0, 1000 * page);
  caches[0]->prefetch(0, 1, 200 * page, page);
  EXPECT_EQ(memory->counters().readahead_issued, 100U);
  expect_read(0, 100 * page);
  EXPECT_EQ(memory->counters().misses, 0U);
  expect_calm();
}

TEST_F(ReadaheadTest, PrefetchOfMoreThanTheCacheHoldsIsCut) {
  make_file(16, 100);
  caches[0]->prefetch(0, 1, 0, 100 * page);
  EXPECT_LE(memory->counters().readahead_issued, 8U);
  expect_read(0, 100 * page);
  expect_calm();
}

// The party that started a flight may never return: any reader ends it.
TEST_F(ReadaheadTest, AnyReaderEndsAFlight) {
  make_file(256, 100, 2);
  storage->faults.late = true;
  caches[0]->prefetch(0, 1, 0, 40 * page);
  expect_read(0, 40 * page, 1);
  EXPECT_EQ(memory->view().counters(1).readahead_used, 40U);
  EXPECT_EQ(memory->view().counters(1).fills, 2U) << "counted by whoever ended them";
  expect_calm();
}

TEST_F(ReadaheadTest, FlightsThatNobodyWantsGiveTheirFramesBack) {
  make_file(16, 1000);
  storage->faults.late = true;
  Random random;
  for (int i = 0; i < 500; ++i) {
    caches[0]->prefetch(0, 1, random.below(900) * page, 20 * page);
    expect_read(random.below(900) * page, 9 * page);
  }
  expect_calm();
  const Counters counters = memory->counters();
  EXPECT_GT(counters.readahead_wasted, 0U);
  EXPECT_LE(counters.readahead_used + counters.readahead_wasted, counters.readahead_issued);
}

TEST_F(ReadaheadTest, AFailedFlightIsTriedAgainByTheReader) {
  make_file(256, 100);
  storage->faults.reads_one_in = 1;
  caches[0]->prefetch(0, 1, 0, 40 * page);
  storage->faults.reads_one_in = 0;
  expect_read(0, 100 * page);
  expect_calm();
}

TEST_F(ReadaheadTest, WhatAnOutsideCallMadeOldIsThrownAway) {
  make_file(256, 100);
  storage->faults.late = true;
  caches[0]->prefetch(0, 1, 0, 20 * page);
  outside_write(0, "new bytes", 5 * page + 10);
  data.replace(5 * page + 10, 9, "new bytes");
  expect_read(0, 20 * page);
  caches[0]->prefetch(0, 1, 30 * page, 10 * page);
  truncate(0, 33 * page + 7);
  data.resize(33 * page + 7);
  EXPECT_EQ(read(0, 30 * page, 10 * page), data.substr(30 * page));
  expect_calm();
}

TEST_F(ReadaheadTest, ReadersOfOneFileAndPrefetchesSeeItsBytes) {
  constexpr std::uint32_t threads = 4;
  make_file(40, 300, threads);
  storage->faults.late = true;
  storage->faults.delays = true;
  Random random;
  std::atomic<int> wrong{0};
  test::at_once("readers", threads, random, [&](std::uint32_t i, Random& mine) {
    for (std::uint64_t round = 0; round < test::scaled(300); ++round) {
      std::size_t at = mine.below(290) * page;
      if (mine.one_in(3)) caches[i]->prefetch(0, 1, at, mine.below(20) * page);
      const std::size_t step = mine.below(2 * page) + 1;
      for (int reads = 0; reads < 30 && at + step <= data.size(); ++reads, at += step)
        if (read(0, at, step, i) != data.substr(at, step)) ++wrong;
    }
  });
  EXPECT_EQ(wrong, 0);
  expect_calm();
}

}  // namespace
}  // namespace ferry::device::cache
