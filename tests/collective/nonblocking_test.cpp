// Nonblocking collective transfers, with and without a progress thread.
#include <atomic>
#include <chrono>
#include <thread>

#include <unistd.h>

#include "collective/world.hpp"
#include "support/failing_storage.hpp"

namespace ferry::collective::nonblocking_test {
namespace {

using namespace test;

constexpr std::int64_t piece_bytes = 30'000;

// Whether a thread executes transfers.
class Nonblocking : public testing::TestWithParam<bool> {
 protected:
  Options options() const {
    Options options = options_of(Method::aggregate, 2, 20'000);
    options.progress_thread = GetParam();
    return options;
  }
  static std::string piece(int number, int of = rank()) {
    return pattern(piece_bytes, static_cast<std::uint64_t>(1000 * number + of));
  }
  static std::int64_t place(int number, int of = rank()) {
    return (number * ranks() + of) * piece_bytes;
  }
  // Like most programs: polls now and then.
  static void poll(Transfer& transfer) {
    while (!transfer.test())
      std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  const SharedDirectory directory_;
};

TEST_P(Nonblocking, SeveralAreUnderWayAndCarriedOutInOrder) {
  File file(MPI_COMM_WORLD, directory_ / "file", O_CREAT | O_RDWR, options());
  constexpr int count = 4;
  std::vector<std::string> data;
  std::vector<Transfer> transfers;
  for (int i = 0; i < count; ++i)
    data.push_back(piece(i));
  for (int i = 0; i < count; ++i)
    transfers.push_back(file.iwrite_at_all(place(i), bytes_of(data[static_cast<std::size_t>(i)])));
  // The same place again: the last write counts, so these reads find it.
  const std::string last = piece(17);
  transfers.push_back(file.iwrite_at_all(place(2), bytes_of(last)));
  const int neighbour = (rank() + 1) % ranks();
  std::string got(piece_bytes, '?');
  Transfer read = file.iread_at_all(place(2, neighbour), bytes_of(got));
  // Waited for in another order on every rank.
  if (rank() % 2 == 0) poll(read);
  EXPECT_EQ(read.wait(), piece_bytes);
  EXPECT_TRUE(same_bytes(got, piece(17, neighbour)));
  for (Transfer& transfer : transfers) {
    EXPECT_TRUE(transfer.test());
    EXPECT_EQ(transfer.wait(), piece_bytes);
    EXPECT_EQ(transfer.wait(), piece_bytes) << "again";
  }
  file.close();
}

TEST_P(Nonblocking, WhoeverWantsToKnowIsToldOnceThatItIsDone) {
  const std::string data = piece(1);
  std::atomic<int> told = 0;
  const auto tell = [&] { ++told; };
  {
    File file(MPI_COMM_WORLD, directory_ / "file", O_CREAT | O_RDWR, options());
    Transfer before = file.iwrite_at_all(place(0), bytes_of(data));
    before.when_done(tell);
    if (!GetParam()) {
      EXPECT_EQ(told, 0) << "nobody has carried it out yet";
    }
    EXPECT_EQ(before.wait(), piece_bytes);
    Transfer after = file.iwrite_at_all(place(1), bytes_of(data));
    EXPECT_EQ(after.wait(), piece_bytes);
    after.when_done(tell);
    Transfer().when_done(tell);
    std::string got(1, '?');
    Transfer failing = file.iread_at_all(-1, bytes_of(got));
    failing.when_done(tell);
    EXPECT_THROW(failing.wait(), Error);
    file.close();
  }
  // A thread of the file's may tell it after wait() has returned, but not after the file's end.
  EXPECT_EQ(told, 4);
}

TEST_P(Nonblocking, TransfersOfOneRankNeedNoCallsOfMpi) {
  const std::string name = directory_ / "file." + std::to_string(rank());
  Options settings;
  settings.progress_thread = GetParam();
  File file(MPI_COMM_SELF, name, O_CREAT | O_RDWR, settings);
  const std::string mine = piece(3);
  std::atomic<bool> done = false;
  Transfer transfer = file.iwrite_at_all(0, bytes_of(mine));
  transfer.when_done([&] { done = true; });
  if (GetParam()) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!done && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_TRUE(done) << "before anything waits for it";
  } else {
    EXPECT_FALSE(done);
  }
  EXPECT_EQ(transfer.wait(), piece_bytes);
  EXPECT_TRUE(same_bytes(read_file(name), mine));
  file.close();
}

// On a page cache that all ranks share: contiguous data needs no answer of another rank.
TEST_P(Nonblocking, WhatNeedsNoOtherRankIsDoneWhenATransferStarts) {
  Options settings;
  settings.progress_thread = GetParam();
  settings.writes_first = true;
  File file(MPI_COMM_WORLD, directory_ / "file", O_CREAT | O_RDWR, settings);
  const std::string mine = piece(0);
  file.write_at_all(place(1), bytes_of(mine));  // all ranks have the file open after it
  Transfer transfer = file.iwrite_at_all(place(0), bytes_of(mine));
  const auto is_there = [&] {
    const std::string found = read_file(directory_ / "file");
    return found.substr(static_cast<std::size_t>(place(0)), piece_bytes) == mine;
  };
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (GetParam() && !is_there() && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  if (GetParam() || (ranks() > 1 && world().is_one_node())) {
    EXPECT_TRUE(is_there());
  }
  EXPECT_EQ(transfer.wait(), piece_bytes);
  file.close();
}

TEST_P(Nonblocking, ARankThatCannotTakePartIsToldLikeTheOthers) {
  File file(MPI_COMM_WORLD, directory_ / "file", O_CREAT | O_RDWR, options());
  const std::string data = piece(1);
  Transfer transfer = rank() == 0 ? file.irefuse(Call::write_all, "no buffer")
                                  : file.iwrite_at_all(place(0), bytes_of(data));
  barrier();  // it has not waited for the others
  EXPECT_THROW(transfer.wait(), Error);
  file.close();
}

// Many requests at once, which go through a ring of the kernel's; the thread that waits for them is
// not the one that opened the file. What is then written by this one is the ring's, too.
TEST_P(Nonblocking, WhatIsNotInThePageCacheIsReadByWhoeverCarriesItOut) {
  constexpr std::int64_t bytes = 4 << 20;
  Options settings = options();
  settings.write_method = settings.read_method = Method::independent;
  File file(MPI_COMM_WORLD, directory_ / "file", O_CREAT | O_RDWR, settings);
  file.set_view(rank() * 4096, TypeMap::strided(1, 4096, 4 * 4096 * ranks()));
  for (int round = 0; round < 3; ++round) {
    const std::string mine = pattern(bytes, static_cast<std::uint64_t>(100 * round + rank()));
    EXPECT_EQ(file.write_at_all(0, bytes_of(mine)), bytes);
    file.sync();
    if (rank() == 0) {
      const int fd = open((directory_ / "file").c_str(), O_RDONLY | O_CLOEXEC);
      posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
      close(fd);
    }
    barrier();
    std::string got(bytes, '?');
    Transfer read = file.iread_at_all(0, bytes_of(got));
    EXPECT_EQ(read.wait(), bytes);
    EXPECT_TRUE(same_bytes(got, mine));
  }
  file.close();
}

TEST_P(Nonblocking, OtherCallsEndThemFirst) {
  File file(MPI_COMM_WORLD, directory_ / "file", O_CREAT | O_RDWR, options());
  const std::string mine = piece(0);
  Transfer first = file.iwrite_at_all(place(0), bytes_of(mine));
  EXPECT_EQ(file.size_bytes(), ranks() * piece_bytes);
  Transfer second = file.iwrite_at_all(place(1), bytes_of(mine));
  expect_at(file, place(1), mine);
  std::string got(piece_bytes, '?');
  Transfer third = file.iwrite_at_all(place(2), bytes_of(mine));
  EXPECT_EQ(file.read_at(place(2), bytes_of(got)), piece_bytes) << "by each rank alone";
  EXPECT_TRUE(same_bytes(got, mine));
  EXPECT_EQ(file.statistics().counts.storage_bytes,
            static_cast<std::uint64_t>(5 * ranks() * piece_bytes));
  // The view at its start applies, and waiting is optional.
  file.iwrite_at_all(place(3), bytes_of(mine));
  file.set_view(4 * ranks() * piece_bytes, TypeMap::strided(1, 10, 10 * ranks()));
  file.close();
  EXPECT_EQ(third.wait(), piece_bytes) << "after the file is closed";
  EXPECT_EQ(read_file(directory_ / "file").size(),
            static_cast<std::size_t>(4 * ranks() * piece_bytes));
}

TEST_P(Nonblocking, PositionsMoveAtOnceAndMemoryMayBeStrided) {
  File file(MPI_COMM_WORLD, directory_ / "file", O_CREAT | O_RDWR, options());
  file.set_view(rank() * 100, TypeMap::strided(1, 100, 100 * ranks()));
  const std::string mine = piece(0);
  Transfer first = file.iwrite_all(bytes_of(mine).first(10'050));
  Transfer rest = file.iwrite_all(bytes_of(mine).subspan(10'050));
  EXPECT_EQ(rest.wait(), piece_bytes - 10'050);
  std::string got(2 * piece_bytes, '\0');
  Transfer read = file.iread_at_all(0, got.data(), TypeMap::strided(piece_bytes / 10, 10, 20), 1);
  EXPECT_EQ(read.wait(), piece_bytes);
  for (std::size_t at = 0; at < mine.size(); at += 10)
    ASSERT_EQ(got.substr(2 * at, 10), mine.substr(at, 10)) << at;
  file.set_view(rank() * 100, TypeMap::strided(1, 100, 100 * ranks()));
  EXPECT_EQ(file.iread_all(bytes_of(got)).wait(), piece_bytes) << "short at the end of the file";
  EXPECT_TRUE(same_bytes(got.substr(0, mine.size()), mine));
  file.close();
}

TEST_P(Nonblocking, ErrorsAreThrownByWaitOnAllRanks) {
  File file(MPI_COMM_WORLD, "/dev/full", O_RDWR, options());
  const std::string mine = piece(0);
  Transfer full = file.iwrite_at_all(place(0), bytes_of(mine));
  // Only the last rank's request is invalid.
  Transfer wrong = file.iwrite_at_all(rank() == ranks() - 1 ? -1 : 0, bytes_of(mine));
  EXPECT_EQ(error_of([&] { wrong.wait(); }), EINVAL);
  EXPECT_TRUE(full.test());
  EXPECT_EQ(error_of([&] { full.wait(); }), ENOSPC);
  EXPECT_EQ(error_of([&] { full.wait(); }), ENOSPC) << "again";
  // An error seen by one rank only is not lost for the others.
  Transfer seen = file.iwrite_at_all(place(0), bytes_of(mine));
  if (rank() == 0) {
    EXPECT_EQ(error_of([&] { seen.wait(); }), ENOSPC);
  }
  EXPECT_EQ(error_of([&] { file.close(); }), ranks() == 1 ? 0 : ENOSPC);
  EXPECT_EQ(error_of([&] { file.iwrite_at_all(0, bytes_of(mine)); }), EBADF);
}

TEST_P(Nonblocking, StoragesThatFailAndDelayKeepTheOrder) {
  Random random;
  const auto storage = std::make_shared<FailingStorage>(random);
  storage->faults.short_writes = 3;
  storage->faults.delays = 2;
  Options one = options();
  one.writers = 1;  // each rank has a storage of its own, and this writer's has it all
  File file(MPI_COMM_WORLD, "file", O_CREAT | O_RDWR, one, storage);
  std::vector<std::string> data;
  for (int i = 0; i < 6; ++i)
    data.push_back(piece(i));
  std::vector<Transfer> transfers;
  for (int i = 0; i < 6; ++i)
    transfers.push_back(file.iwrite_at_all(place(i % 3), bytes_of(data[std::size_t(i)])));
  for (Transfer& transfer : transfers)
    EXPECT_EQ(transfer.wait(), piece_bytes);
  std::string got(piece_bytes, '?');
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(file.iread_at_all(place(i), bytes_of(got)).wait(), piece_bytes);
    EXPECT_TRUE(same_bytes(got, data[std::size_t(i + 3)]));
  }
  file.close();
}

// Several rounds of both are under way whichever the ranks wait for.
TEST_P(Nonblocking, RanksWaitForTwoFilesInAnyOrder) {
  File one(MPI_COMM_WORLD, directory_ / "one", O_CREAT | O_RDWR, options());
  File other(MPI_COMM_WORLD, directory_ / "other", O_CREAT | O_RDWR, options());
  for (File* file : {&one, &other})
    file->set_view(rank() * 100, TypeMap::strided(1, 100, 100 * ranks()));
  const std::string first = piece(1);
  const std::string second = piece(2);
  for (int round = 0; round < 4; ++round) {
    std::string got(piece_bytes, '?');
    std::vector<Transfer> transfers;
    transfers.push_back(one.iwrite_at_all(round * piece_bytes, bytes_of(first)));
    transfers.push_back(other.iwrite_at_all(round * piece_bytes, bytes_of(second)));
    transfers.push_back(one.iread_at_all(round * piece_bytes, bytes_of(got)));
    for (std::size_t i = 0; i < transfers.size(); ++i) {
      Transfer& next = transfers[(i + static_cast<std::size_t>(rank() + round)) % 3];
      if (round % 2 == 0) poll(next);
      EXPECT_EQ(next.wait(), piece_bytes);
    }
    EXPECT_TRUE(same_bytes(got, first));
  }
  expect_at(one, 3 * piece_bytes, first);
  expect_at(other, 3 * piece_bytes, second);
  one.close();
  other.close();
}

// Some ranks wait for one file before they make a blocking call of another, the others behind it.
TEST_P(Nonblocking, BlockingCallsLetOtherFilesGoOn) {
  File one(MPI_COMM_WORLD, directory_ / "one", O_CREAT | O_RDWR, options());
  File other(MPI_COMM_WORLD, directory_ / "other", O_CREAT | O_RDWR, options());
  const std::string mine = piece(1);
  for (int round = 0; round < 3; ++round) {
    Transfer transfer = one.iwrite_at_all(place(round), bytes_of(mine));
    if (rank() % 2 == 0) {
      EXPECT_EQ(transfer.wait(), piece_bytes);
    }
    EXPECT_EQ(other.write_at_all(place(round), bytes_of(mine)), piece_bytes);
    other.sync();
    EXPECT_EQ(transfer.wait(), piece_bytes);
  }
  expect_at(one, place(2), mine);
  expect_at(other, place(2), mine);
  one.close();
  other.close();
}

TEST_P(Nonblocking, AStorageThatHangsDelaysNoOtherFile) {
  const auto storage = std::make_shared<FailingStorage>(Random());
  Options hanging = options();
  hanging.writers = 1;  // each rank has a storage of its own
  File one(MPI_COMM_WORLD, "one", O_CREAT | O_RDWR, hanging, storage);
  File other(MPI_COMM_WORLD, directory_ / "other", O_CREAT | O_RDWR, options());
  const std::string mine = piece(1);
  storage->all_hang = true;
  Transfer hangs = one.iwrite_at_all(place(0), bytes_of(mine));
  Transfer goes_on = other.iwrite_at_all(place(0), bytes_of(mine));
  EXPECT_FALSE(hangs.test());
  EXPECT_EQ(goes_on.wait(), piece_bytes);
  EXPECT_EQ(other.write_at_all(place(1), bytes_of(mine)), piece_bytes);
  EXPECT_FALSE(hangs.test());
  barrier();
  storage->all_hang = false;
  EXPECT_EQ(hangs.wait(), piece_bytes);
  std::string got(piece_bytes, '?');
  EXPECT_EQ(one.iread_at_all(place(0), bytes_of(got)).wait(), piece_bytes);
  EXPECT_TRUE(same_bytes(got, mine));
  expect_at(other, place(1), mine);
  other.close();
  one.close();
}

// The others begin when they hear of this rank.
TEST_P(Nonblocking, TestingDoesNotWaitForOtherRanks) {
  File file(MPI_COMM_WORLD, directory_ / "file", O_CREAT | O_RDWR, options());
  const std::string mine = piece(1);
  int word = 0;
  if (rank() > 0) MPI_Recv(&word, 1, MPI_INT, rank() - 1, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  Transfer transfer = file.iwrite_at_all(place(0), bytes_of(mine));
  if (rank() + 1 < ranks()) {
    EXPECT_FALSE(transfer.test());
    MPI_Send(&word, 1, MPI_INT, rank() + 1, 5, MPI_COMM_WORLD);
  }
  poll(transfer);
  EXPECT_EQ(transfer.wait(), piece_bytes);
  expect_at(file, place(0), mine);
  file.close();
}

TEST_P(Nonblocking, TransfersThatFailBesideOthers) {
  const auto storage = std::make_shared<FailingStorage>(Random());
  storage->faults.writes = 1;
  storage->faults.delays = 2;
  Options failing = options();
  failing.writers = 1;
  File one(MPI_COMM_WORLD, "one", O_CREAT | O_RDWR, failing, storage);
  File other(MPI_COMM_WORLD, directory_ / "other", O_CREAT | O_RDWR, options());
  const std::string mine = piece(1);
  for (int round = 0; round < 4; ++round) {
    Transfer fails = one.iwrite_at_all(place(round), bytes_of(mine));
    Transfer refused = one.iwrite_at_all(rank() == 0 ? -1 : 0, bytes_of(mine));
    Transfer works = other.iwrite_at_all(place(round), bytes_of(mine));
    if (rank() % 2 == 0) {
      EXPECT_EQ(works.wait(), piece_bytes);
    }
    EXPECT_EQ(error_of([&] { refused.wait(); }), EINVAL);
    EXPECT_EQ(error_of([&] { fails.wait(); }), EIO);
    EXPECT_EQ(works.wait(), piece_bytes);
  }
  storage->faults.stop();
  expect_at(other, place(3), mine);
  other.close();
  one.close();
}

// With a thread, a transfer ends without polling.
TEST(NonblockingThread, AThreadMakesProgressByItself) {
  int threads = 0;
  MPI_Query_thread(&threads);
  if (threads != MPI_THREAD_MULTIPLE) GTEST_SKIP() << "MPI was initialised for one thread";
  const SharedDirectory directory;
  File file(MPI_COMM_WORLD, directory / "file", O_CREAT | O_RDWR, options_of(Method::aggregate, 1));
  const std::string mine = pattern(100'000, 1);
  Transfer transfer = file.iwrite_at_all(rank() * 100'000, bytes_of(mine));
  // No call of MPI or of Ferry in here, on any rank.
  const auto all = static_cast<std::size_t>(ranks()) * 100'000;
  while (read_file(directory / "file").size() < all)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(transfer.wait(), 100'000);
  file.close();
}

INSTANTIATE_TEST_SUITE_P(Progress, Nonblocking, testing::Bool(),
                         [](const auto& of) { return of.param ? "Thread" : "Waiting"; });

}  // namespace
}  // namespace ferry::collective::nonblocking_test
