// Small reads of a file of `ceph:` that come in order: one larger read takes the place of several.
// The bookkeeping by itself, and the storage on the mock of libcephfs.
#include "storage/ceph/readahead.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <limits>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>

#include "storage/router.hpp"
#include "support/client_mocks.hpp"

namespace ferry::storage::ceph_readahead_test {
namespace {

constexpr std::int64_t kib = 1024;
constexpr std::int64_t piece = 4 * kib;
constexpr std::int64_t window_max = CephReadahead::window_max;

using std::chrono::microseconds;

// Reads in order, or with gaps, of a library that keeps what it fetches.
struct InOrder {
  CephReadahead& readahead;
  std::int64_t at = 0;
  std::int64_t bytes = piece;
  std::int64_t end = 0;  // of what it keeps
  bool keeps = true;
  std::int64_t gap = 0;  // behind each read
  std::int64_t file_end = std::numeric_limits<std::int64_t>::max();
  std::int64_t fetched = 0;
  std::int64_t fetches = 0;

  // The reach of the next read.
  std::int64_t next() {
    const CephReadahead::Reach reach = readahead.begin(at, bytes);
    const std::int64_t got = std::min(reach.bytes, file_end - at);
    const bool fetches_now = at + got > end || !keeps;
    if (fetches_now) {
      fetched += at + got - std::clamp(end, at, at + got);
      ++fetches;
      end = std::max(end, at + got);
    }
    readahead.end(reach, got, microseconds(fetches_now ? 1000 : 10));
    at += std::min(bytes, got) + gap;
    return reach.bytes;
  }
  // The longest reach up to there.
  std::int64_t until(std::int64_t stop) {
    std::int64_t longest = 0;
    while (at < stop)
      longest = std::max(longest, next());
    return longest;
  }
};

TEST(CephReadaheadTest, WindowsGrowWithWhatIsReadInOrder) {
  CephReadahead readahead;
  InOrder reads{readahead};
  EXPECT_EQ(reads.next(), piece);
  EXPECT_EQ(reads.next(), piece);
  EXPECT_EQ(reads.next(), 2 * piece);
  EXPECT_EQ(reads.next(), piece) << "within the window";
  EXPECT_EQ(reads.next(), 4 * piece);
  while (reads.at < 16 * window_max) {
    const std::int64_t from = reads.at;
    const std::int64_t reach = reads.next();
    ASSERT_LE(reach, window_max);
    if (from >= 2 * window_max) {
      ASSERT_EQ(reach, from % window_max == 0 ? window_max : piece) << from;
    }
  }
  EXPECT_EQ(reads.end, 16 * window_max);
  EXPECT_LT(reads.fetches, 30);
}

TEST(CephReadaheadTest, NoMoreThanTwiceTheBytesAreRead) {
  for (const std::int64_t bytes : {std::int64_t{100}, piece, 5 * kib, 64 * kib, 256 * kib}) {
    CephReadahead readahead;
    InOrder reads{.readahead = readahead, .at = 12'345, .bytes = bytes};
    for (std::int64_t done = bytes; done < 4 * window_max; done += bytes) {
      reads.next();
      ASSERT_LE(reads.fetched, 2 * done) << bytes;
    }
  }
}

// Few windows are of reads that leave most of them out, however much was read in order before.
TEST(CephReadaheadTest, NoMoreThanTwiceTheBytesAreReadByStrides) {
  const auto strides = {piece + 1, 2 * piece,  3 * piece,      5 * piece,     64 * kib,
                        512 * kib, window_max, window_max + 1, 3 * window_max};
  for (const std::int64_t stride : strides) {
    for (const std::int64_t before : {2 * window_max, 16 * window_max + piece}) {
      CephReadahead readahead;
      InOrder reads{readahead};
      reads.until(before);
      reads.gap = stride - piece;
      const std::int64_t fetched = reads.fetched;
      std::int64_t asked = 0;
      for (; asked < 2 * window_max; asked += piece) {
        reads.next();
        ASSERT_LE(reads.fetched, 2 * (before + asked + piece)) << stride;
      }
      EXPECT_LE(reads.fetched - fetched, 2 * asked + window_max) << stride;
    }
  }
}

TEST(CephReadaheadTest, AFileThatGrowsIsReadAheadAgain) {
  CephReadahead readahead;
  InOrder reads{.readahead = readahead, .file_end = window_max + 100};
  reads.until(reads.file_end);
  for (int times = 0; times < 5; ++times)
    reads.next();
  reads.file_end = 4 * window_max;
  EXPECT_GT(reads.until(2 * window_max), window_max / 8);
  EXPECT_GT(reads.until(3 * window_max), window_max / 2);
}

TEST(CephReadaheadTest, ReadsInNoOrderAndLargeOnesGetNone) {
  CephReadahead readahead;
  std::uint64_t random = 1;
  for (int i = 0; i < 1000; ++i) {
    random = random * 6364136223846793005U + 1442695040888963407U;
    const auto offset = static_cast<std::int64_t>(random >> 24) * 2 * piece;
    ASSERT_EQ(readahead.begin(offset, piece).bytes, piece);
    ASSERT_EQ(readahead.begin(i * 3 * piece, piece).bytes, piece) << "with gaps";
    ASSERT_EQ(readahead.begin(i * window_max, window_max).bytes, window_max) << "large";
  }
}

TEST(CephReadaheadTest, SeveralStreamsOfAFileAreReadAhead) {
  CephReadahead readahead;
  std::int64_t longest = 0;
  for (std::int64_t i = 0; i < window_max / piece; ++i) {
    for (std::int64_t stream = 0; stream < 8; ++stream)
      longest =
          std::max(longest, readahead.begin(stream * 16 * window_max + i * piece, piece).bytes);
  }
  EXPECT_GT(longest, window_max / 4);
}

// Threads of the pool may begin with reads in another order.
TEST(CephReadaheadTest, ReadsMayOvertakeEachOther) {
  CephReadahead readahead;
  std::int64_t longest = 0;
  for (std::int64_t i = 0; i < 4 * window_max / piece; ++i) {
    const std::int64_t at = i < 4 ? i : i ^ 1;
    longest = std::max(longest, readahead.begin(at * piece, piece).bytes);
  }
  EXPECT_GT(longest, window_max / 4);
}

// Also if some other file's bytes took their place.
TEST(CephReadaheadTest, BytesThatAreNotKeptAreNotReadAhead) {
  CephReadahead readahead;
  InOrder reads{.readahead = readahead, .keeps = false};
  EXPECT_LT(reads.until(window_max), 32 * piece);
  EXPECT_EQ(reads.until(8 * window_max), piece);
}

TEST(CephReadaheadTest, BytesThatAreThereAreNotReadAhead) {
  CephReadahead readahead;
  InOrder reads{.readahead = readahead, .end = 8 * window_max};
  EXPECT_LT(reads.until(window_max), 32 * piece);
  EXPECT_EQ(reads.until(8 * window_max), piece);
  EXPECT_EQ(reads.until(12 * window_max), window_max) << "behind them";
}

TEST(CephReadaheadTest, OneSlowReadIsTheMachinesFault) {
  CephReadahead readahead;
  InOrder reads{.readahead = readahead, .end = 8 * window_max};
  reads.until(window_max);
  for (int i = 0; i < 4; ++i) {
    const CephReadahead::Reach reach = readahead.begin(reads.at, piece);
    readahead.end(reach, piece, microseconds(1000));
    reads.at += piece;
    EXPECT_EQ(reads.until(reads.at + 16 * piece), piece);
  }
}

TEST(CephReadaheadTest, ItBeginsAnewAfterAWindowOfNoUse) {
  CephReadahead readahead;
  InOrder reads{readahead};
  reads.until(window_max);
  readahead.drop(readahead.begin(reads.at - piece, piece));
  EXPECT_EQ(reads.next(), piece);
  EXPECT_EQ(reads.next(), piece);
  EXPECT_EQ(reads.next(), 2 * piece);
}

TEST(CephReadaheadTest, NothingIsBehindTheLargestOffset) {
  CephReadahead readahead;
  const std::int64_t end = std::numeric_limits<std::int64_t>::max() - 7;
  for (std::int64_t at = end - 64 * piece; at < end; at += piece)
    ASSERT_LE(readahead.begin(at, piece).bytes, std::numeric_limits<std::int64_t>::max() - at);
}

class CephReadaheadMock : public test::ClientMock {
 protected:
  CephReadaheadMock() {
    test::write_file(configuration, "/\n");
    test::write_file(path("f"), data);
    use(make_router({.ceph_library = test::ceph_mock}));
    faults.keep_reads(true);
    faults.longest_read();
  }
  test::DrivenFile open(int flags = O_RDONLY, int timeout_s = patient_s) {
    return must_open(
        "ceph:" + path("f") + "?conf=" + configuration + "&timeout=" + std::to_string(timeout_s),
        flags);
  }
  // From there to there, in small pieces and in order. Returns the longest read of the library.
  std::int64_t read(File* file, std::int64_t from, std::int64_t to) {
    for (std::int64_t at = from; at < to; at += piece) {
      const std::int64_t wanted = std::clamp<std::int64_t>(std::ssize(data) - at, 0, piece);
      EXPECT_EQ(driver->pread(file, memory_of_read.data(), piece, at), wanted) << at;
      EXPECT_TRUE(memory_of_read.compare(0, static_cast<std::size_t>(wanted), data,
                                         static_cast<std::size_t>(std::min(at, std::ssize(data))),
                                         static_cast<std::size_t>(wanted)) == 0)
          << at;
    }
    return faults.longest_read();
  }

  const std::string configuration = directory / "ceph.conf";
  const std::string data = test::pattern(static_cast<std::size_t>(3 * window_max) + 1000, 1);
  std::string memory_of_read = std::string(piece, 'x');
  test::CephMockFaults faults;
};

TEST_F(CephReadaheadMock, SmallReadsInOrderAreReadAhead) {
  const auto file = open();
  EXPECT_EQ(read(file, 0, 2 * piece), piece);
  EXPECT_EQ(read(file, 2 * piece, std::ssize(data) + 4 * piece), window_max);
}

TEST_F(CephReadaheadMock, NothingIsReadAheadThatMayNotBeCached) {
  const auto file = open();
  faults.let_cache(false);
  EXPECT_EQ(read(file, 0, window_max), piece);
  faults.let_cache(true);
  EXPECT_GT(read(file, window_max, 2 * window_max), window_max / 4);
  faults.let_cache(false);
  EXPECT_EQ(read(file, 2 * window_max, 2 * window_max + 8 * piece), piece);
  faults.let_cache(true);
  EXPECT_EQ(read(file, 2 * window_max + 8 * piece, 2 * window_max + 11 * piece), 2 * piece)
      << "begins anew";
}

TEST_F(CephReadaheadMock, OnlyWindowsAskWhetherTheFileMayBeCached) {
  const auto file = open();
  const int before = faults.rights_asked();
  EXPECT_GT(read(file, 0, window_max), window_max / 4);
  EXPECT_GT(faults.rights_asked(), before);
  EXPECT_LT(faults.rights_asked(), before + 16);
}

// A window would need servers that its reads do not.
TEST_F(CephReadaheadMock, NothingIsReadAheadOfSmallStripes) {
  for (const std::int64_t stripe : {std::int64_t{0}, 64 * kib, window_max + 64 * kib}) {
    faults.stripe(static_cast<int>(stripe));
    const auto file = open();
    EXPECT_EQ(read(file, 0, 16 * piece), piece) << stripe;
  }
  faults.stripe(static_cast<int>(window_max));
  const auto file = open();
  EXPECT_GT(read(file, 0, 16 * piece), piece);
}

TEST_F(CephReadaheadMock, NothingIsReadAheadForDirectReads) {
  const auto file = open(O_RDONLY | O_DIRECT);
  EXPECT_EQ(read(file, 0, window_max), piece);
}

TEST_F(CephReadaheadMock, BytesThatNobodyAskedForFailNoRead) {
  const auto file = open();
  faults.bad_from(window_max / 2 + piece);
  EXPECT_GE(read(file, 0, window_max / 2 + piece), window_max / 16);
  EXPECT_EQ(driver->pread(file, arena.data(), piece, window_max / 2 + piece), -EIO);
}

// A window that takes a large part of a call's time is followed by short ones.
TEST_F(CephReadaheadMock, ASlowWindowIsTheLastForAWhile) {
  const auto file = open(O_RDONLY, 2);
  read(file, 0, window_max);
  faults.hang("ceph_read");
  EXPECT_EQ(driver->pread(file, arena.data(), piece, window_max), -ETIMEDOUT);
  faults.hang("");
  await_late_calls();
  faults.longest_read();
  EXPECT_EQ(read(file, window_max + piece, window_max + 4 * piece), 2 * piece) << "begins anew";
}

// Threads may begin with them in an order that has no windows, but not for ever.
TEST_F(CephReadaheadMock, ReadsInFlightAreReadAhead) {
  const auto file = open();
  constexpr std::size_t count = 512;
  std::int64_t longest = 0;
  for (int times = 0; times < 50 && longest <= piece; ++times) {
    std::string found(count * piece, 'x');
    const auto reads = driver->start_pieces(Kind::read, file, found.data(), piece, count);
    driver->expect_next(count, piece);
    EXPECT_TRUE(test::same_bytes(found, data.substr(0, found.size())));
    longest = faults.longest_read();
  }
  EXPECT_GT(longest, piece);
  EXPECT_LE(longest, window_max);
}

}  // namespace
}  // namespace ferry::storage::ceph_readahead_test
