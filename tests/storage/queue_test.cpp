// What a queue promises besides operations: waking, polling, cancelling.
#include "storage/posix/queue.hpp"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/inotify.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/futex.hpp"
#include "base/waits.hpp"
#include "storage/posix/posix.hpp"
#include "support/blocked_file.hpp"
#include "support/depth.hpp"
#include "support/files.hpp"
#include "support/storage_driver.hpp"
#include "support/within.hpp"

namespace ferry::storage {
namespace {

using test::AlignedBytes;
using test::BlockedFile;
using test::Descriptor;
using test::DrivenTransfer;
using test::pattern;
using test::ScratchDirectory;
using test::StorageDriver;
using test::write_file;

std::size_t open_descriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd"))
    ++count;
  return count;
}

class QueueTest : public test::StorageTest, public testing::WithParamInterface<Engine> {
 protected:
  void SetUp() override {
    try {
      use(make_posix(GetParam()));
    } catch (const std::system_error& error) {
      if (error.code().value() == EINVAL) throw;
      GTEST_SKIP() << error.what();
    }
  }
  // A file whose pages are not in the kernel's cache.
  std::string cold_file(std::size_t bytes) {
    const std::string path = directory / "cold";
    write_file(path, pattern(bytes, 1));
    const Descriptor fd(::open(path.c_str(), O_RDONLY));
    EXPECT_EQ(fsync(fd), 0);
    EXPECT_EQ(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
    return path;
  }

  ScratchDirectory directory;
};

TEST_P(QueueTest, HasNothingToReapAtFirst) {
  EXPECT_EQ(driver->queue().reap(), nullptr);
}

// Pollers see finished operations without wait().
TEST_P(QueueTest, ReapAloneFindsWhatHasFinished) {
  for (const int direct : {0, O_DIRECT}) {
    const std::string path = cold_file(1 << 20);
    File* file = nullptr;
    if (driver->open(path, O_RDONLY | direct, file) == -EINVAL) continue;
    DrivenTransfer read(Kind::read, file, arena.data(), 1 << 20);
    driver->start(read);
    EXPECT_TRUE(test::eventually([&] { return driver->queue().reap() == &read; }))
        << (direct != 0 ? "direct" : "buffered");
    EXPECT_EQ(read.result, 1 << 20);
    EXPECT_EQ(driver->close(file), 0);
  }
}

TEST_P(QueueTest, WaitReturnsWhenTheDoorbellRings) {
  const std::string path = cold_file(4096);
  const auto file = must_open(path, O_RDONLY);
  // With nothing in flight, and with an operation in flight that does not finish.
  BlockedFile blocked;
  Operation stuck = blocked.operation();
  for (const bool busy : {false, true}) {
    if (busy) driver->start(stuck);
    for (int round = 0; round < 20; ++round) {
      const std::uint32_t seen = driver->seen();
      std::thread ringer([this] {
        std::this_thread::sleep_for(std::chrono::microseconds(300));
        Doorbell{driver->word()}.ring();
      });
      test::within_patience("the doorbell does not wake", [&] {
        while (driver->seen() == seen)
          driver->queue().wait(seen, std::chrono::seconds(600));
      });
      ringer.join();
    }
  }
  blocked.release();
  EXPECT_EQ(&driver->next(), &stuck);
}

TEST_P(QueueTest, WaitDoesNotSleepPastARingThatItHasNotSeen) {
  const std::uint32_t seen = driver->seen();
  Doorbell{driver->word()}.ring();
  test::within_patience("an old ring was slept through",
                        [&] { driver->queue().wait(seen, std::chrono::seconds(600)); });
}

TEST_P(QueueTest, WaitReturnsWhenAnOperationFinishes) {
  for (int round = 0; round < 10; ++round) {
    BlockedFile blocked;
    Operation operation = blocked.operation();
    driver->start(operation);
    EXPECT_EQ(driver->queue().reap(), nullptr);
    std::thread releaser([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      blocked.release();
    });
    test::within_patience("the end of an operation does not wake", [&] {
      for (;;) {
        const std::uint32_t seen = driver->seen();
        if (driver->queue().reap() != nullptr) break;
        driver->queue().wait(seen, std::chrono::seconds(600));
      }
    });
    releaser.join();
    EXPECT_EQ(operation.result, 1);
  }
}

TEST_P(QueueTest, WaitEndsAfterTheTimeout) {
  BlockedFile blocked;
  Operation operation = blocked.operation();
  test::within_patience("the timeout", [&] {
    driver->queue().wait(driver->seen(), std::chrono::milliseconds(5));
    driver->start(operation);
    driver->queue().wait(driver->seen(), std::chrono::milliseconds(5));
  });
  EXPECT_EQ(driver->queue().reap(), nullptr);
  blocked.release();
  EXPECT_EQ(&driver->next(), &operation);
}

// Every worker is busy, so other operations for them wait.
class AllWorkersBusy {
 public:
  explicit AllWorkersBusy(StorageDriver& driver)
      : driver_(driver), files_(PosixShared::workers_max) {
    for (auto& file : files_) {
      operations_.push_back(std::make_unique<Operation>(file.operation()));
      driver.queue().submit(*operations_.back());
    }
    driver.queue().flush();
    // Nearly always enough for the workers to start; otherwise operations just finish later.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  // Returns the `others` operations that came back beside those of the workers.
  std::vector<Operation*> release(std::size_t others = 0) {
    for (auto& file : files_)
      file.release();
    std::vector<Operation*> found;
    for (std::size_t i = 0; i < operations_.size() + others; ++i) {
      Operation& next = driver_.next();
      if (next.kind != Kind::append) found.push_back(&next);
    }
    return found;
  }

 private:
  StorageDriver& driver_;
  std::vector<BlockedFile> files_;
  std::vector<std::unique_ptr<Operation>> operations_;
};

TEST_P(QueueTest, CancelsWhatHasNotBegun) {
  const std::string path = directory / "never";
  // A worker that starts late takes the operation before it can be cancelled, so this asks again.
  for (int attempts = 0; attempts < 20; ++attempts) {
    AllWorkersBusy busy(*driver);
    // The queue's own thread never makes a file for direct I/O.
    Operation waiting{
        .kind = Kind::open, .path = path.c_str(), .flags = O_RDWR | O_CREAT | O_DIRECT};
    driver->start(waiting);
    driver->queue().cancel(waiting);
    EXPECT_EQ(&driver->next(), &waiting);
    busy.release();
    if (waiting.result == -ECANCELED) {
      EXPECT_EQ(waiting.opened, nullptr);
      EXPECT_EQ(test::file_size(path), -ENOENT);
      return;
    }
    ASSERT_EQ(waiting.result, 0);
    driver->close(waiting.opened.release());
    std::filesystem::remove(path);
  }
  FAIL() << "an operation was never cancelled before it began";
}

// storage.hpp: a close "always takes the file". Cancelled or not, the descriptor must not be lost.
TEST_P(QueueTest, ACancelledCloseClosesAllTheSame) {
  File* file = driver->must_open(directory / "f", O_RDWR | O_CREAT);
  const std::string name = "/proc/self/fd/" + std::to_string(static_cast<PosixFile*>(file)->fd);
  AllWorkersBusy busy(*driver);
  Operation close{.kind = Kind::close, .file = file};
  driver->start(close);
  driver->queue().cancel(close);
  EXPECT_EQ(busy.release(1), std::vector<Operation*>{&close});
  EXPECT_EQ(access(name.c_str(), F_OK), -1) << "the file is still open, and nobody knows it";
}

TEST_P(QueueTest, CancellingWhatHasFinishedChangesNothing) {
  const auto file = must_open(directory / "f", O_RDWR | O_CREAT);
  DrivenTransfer write(Kind::write, file, arena.data(), 4096);
  driver->start(write);
  // Cancelled at some moment in between; either way it comes back once.
  driver->queue().cancel(write);
  EXPECT_EQ(&driver->next(), &write);
  EXPECT_TRUE(write.result == 4096 || write.result == -ECANCELED) << write.result;
  for (int i = 0; i < 10; ++i) {
    driver->queue().wait(driver->seen(), std::chrono::milliseconds(1));
    EXPECT_EQ(driver->queue().reap(), nullptr);
  }
}

TEST_P(QueueTest, DestructionWaitsForTheKernelAndTheWorkers) {
  const std::string path = cold_file(1 << 20);
  for (int round = 0; round < 5; ++round) {
    File* file = driver->must_open(path, O_RDONLY);
    const Descriptor fd(::open(path.c_str(), O_RDONLY));
    EXPECT_EQ(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
    const auto reads = driver->start_pieces(Kind::read, file, arena.data(), 65536, 16);
    test::within_patience("destruction of a queue", [&] { driver.reset(); });
    std::memset(arena.data(), 0x33, arena.size());
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    EXPECT_TRUE(test::same_bytes(arena.view(0, 1 << 20), std::string(1 << 20, 0x33)))
        << "still being written to";
    driver = std::make_unique<StorageDriver>(*storage, arena.span());
    EXPECT_EQ(driver->close(file), 0);
  }
}

TEST_P(QueueTest, CountsWhatWentWhere) {
  const auto file = must_open(directory / "f", O_RDWR | O_CREAT);
  const QueueStatistics before = driver->queue().statistics();
  ASSERT_EQ(driver->pwrite(file, arena.data(), 4096, 0), 4096);
  ASSERT_EQ(driver->pread(file, arena.data(), 4096, 0), 4096);
  ASSERT_EQ(driver->simple(Kind::sync, file), 0);
  const QueueStatistics after = driver->queue().statistics();
  EXPECT_EQ(after.inline_operations + after.engine_operations + after.pool_operations,
            before.inline_operations + before.engine_operations + before.pool_operations + 3);
  EXPECT_GT(after.pool_operations, before.pool_operations) << "a sync would block the thread";
}

// It always waits for the medium, but others' calls must not wait with it.
TEST_P(QueueTest, WritesSynchronouslyOnOtherThreads) {
  for (const int flag : {O_DSYNC, O_SYNC}) {
    const auto file = must_open(directory / "f", O_RDWR | O_CREAT | flag);
    const QueueStatistics before = driver->queue().statistics();
    for (int i = 0; i < 4; ++i)
      ASSERT_EQ(driver->pwrite(file, arena.data(), 4096, i * 4096), 4096);
    const QueueStatistics after = driver->queue().statistics();
    EXPECT_EQ(after.inline_operations, before.inline_operations);
  }
}

// Of paths that the kernel has in memory, on a mount from which a file was opened before.
TEST_P(QueueTest, OpensAndClosesAtOnceWhatIsAtHand) {
  const std::string path = directory / "f";
  write_file(path, pattern(5000, 1));
  ASSERT_EQ(driver->try_open(path, O_RDONLY), 0);
  if (mount_number(Descriptor(::open(path.c_str(), O_RDONLY))) == 0) {
    GTEST_SKIP() << "absent: this kernel has no number for a mount that it does not use again";
  }
  const auto counted = [&] { return driver->queue().statistics(); };
  const auto opens_and_closes = [&] {
    const QueueStatistics before = counted();
    for (const int flags : {O_RDONLY, O_RDWR, O_RDWR | O_CREAT}) {
      auto file = must_open(path, flags);
      EXPECT_EQ(driver->pread(file, arena.data(), 5000, 0), 5000);
      file.close();
      Status status;
      EXPECT_EQ(driver->path_call(Kind::path_status, path, &status), 0);
      EXPECT_EQ(status.size_bytes, 5000U);
    }
    return counted().pool_operations == before.pool_operations &&
           counted().inline_operations >= before.inline_operations + 9;
  };
  // A busy disk, or a program that mounts at that moment, may be the reason for a longer way.
  EXPECT_TRUE(test::eventually(opens_and_closes));
  const QueueStatistics after = counted();
  // Paths that are missing, are there and must be new, or bypass the page cache take the long way.
  EXPECT_EQ(driver->try_open(path, O_RDWR | O_CREAT | O_EXCL), -EEXIST);
  EXPECT_EQ(driver->try_open(directory / "absent", O_RDONLY), -ENOENT);
  EXPECT_GE(counted().pool_operations, after.pool_operations + 2);
  // The same errors, either way.
  EXPECT_EQ(driver->try_open(directory / ".", O_RDWR), -EISDIR);
  EXPECT_EQ(driver->try_open(path + "/below", O_RDONLY), -ENOTDIR);
}

// Also if nothing was opened on the mount before: the first look-up waits for a worker alone.
TEST_P(QueueTest, LooksUpAtOnceWhereItHasLookedUp) {
  const test::OwnMount own("size=1m");
  if (!own) GTEST_SKIP() << own.why();
  const std::string path = own / "f";
  write_file(path, "bytes");
  if (mount_number(Descriptor(::open(path.c_str(), O_RDONLY))) == 0) {
    GTEST_SKIP() << "absent: this kernel has no number for a mount that it does not use again";
  }
  const auto in_pool = [&] { return driver->queue().statistics().pool_operations; };
  const auto looks_up = [&] {
    const std::uint64_t before = in_pool();
    Status status;
    EXPECT_EQ(driver->path_call(Kind::path_status, path, &status), 0);
    EXPECT_EQ(status.size_bytes, 5U);
    return in_pool() - before;
  };
  EXPECT_EQ(looks_up(), 1U);
  EXPECT_TRUE(test::eventually([&] { return looks_up() == 0; }));
}

// The same of names that are made and removed there.
TEST_P(QueueTest, MakesAndRemovesAtOnceWhatIsAtHand) {
  const std::string known = directory / "known";
  const std::string path = directory / "new";
  ASSERT_EQ(driver->try_open(known, O_RDWR | O_CREAT), 0);
  if (mount_number(Descriptor(::open(known.c_str(), O_RDONLY))) == 0) {
    GTEST_SKIP() << "absent: this kernel has no number for a mount that it does not use again";
  }
  write_file(path, "");
  struct stat plain {};
  ASSERT_EQ(::stat(path.c_str(), &plain), 0);
  ASSERT_EQ(::unlink(path.c_str()), 0);
  const auto in_pool = [&] { return driver->queue().statistics().pool_operations; };
  const auto makes_and_removes = [&](int flags) {
    const std::uint64_t before = in_pool();
    auto file = must_open(path, O_RDWR | flags);
    const std::string data = pattern(3000, static_cast<std::uint64_t>(flags));
    EXPECT_EQ(driver->pwrite(file, data.data(), data.size(), 0), 3000);
    file.close();
    Status status;
    EXPECT_EQ(driver->path_call(Kind::path_status, path, &status), 0);
    EXPECT_EQ(status.size_bytes, 3000U);
    EXPECT_EQ(status.mode, plain.st_mode);
    EXPECT_EQ(test::read_file(path), data);
    EXPECT_EQ(driver->path_call(Kind::unlink, path), 0);
    EXPECT_FALSE(std::filesystem::exists(path));
    return in_pool() == before;
  };
  // A busy disk, or a program that mounts at that moment, may be the reason for a longer way.
  for (const int flags : {O_CREAT, O_CREAT | O_EXCL, O_CREAT | O_TRUNC, O_CREAT | O_APPEND})
    EXPECT_TRUE(test::eventually([&] { return makes_and_removes(flags); })) << flags;
  const std::uint64_t before = in_pool();
  // A removal that frees much is no short work.
  write_file(path, "");
  std::filesystem::resize_file(path, LocalMounts::emptied_bytes_max + 1);
  EXPECT_EQ(driver->path_call(Kind::unlink, path), 0);
  EXPECT_EQ(in_pool(), before + 1);
  // The same errors, either way.
  EXPECT_EQ(driver->path_call(Kind::unlink, path), -ENOENT);
  EXPECT_EQ(driver->path_call(Kind::unlink, directory / "."), -EISDIR);
  EXPECT_EQ(driver->path_call(Kind::unlink, known + "/below"), -ENOTDIR);
  EXPECT_EQ(driver->try_open(directory / "absent/new", O_RDWR | O_CREAT), -ENOENT);
  EXPECT_EQ(driver->try_open(known + "/", O_RDWR | O_CREAT), -EISDIR);
  // A link is followed to what it names.
  std::filesystem::create_symlink("made", directory / "link");
  EXPECT_EQ(driver->try_open(directory / "link", O_RDWR | O_CREAT | O_EXCL), -EEXIST);
  EXPECT_EQ(driver->try_open(directory / "link", O_RDWR | O_CREAT), 0);
  EXPECT_TRUE(std::filesystem::exists(directory / "made"));
}

// The last close of a file without a name frees its blocks: of a large one, that is no short work.
TEST_P(QueueTest, ThreadsEndLargeFilesWithoutAName) {
  const std::string path = directory / "file";
  const std::int64_t most = LocalMounts::emptied_bytes_max;
  const auto closed_by_threads = [&](std::int64_t bytes, bool removed) {
    auto file = must_open(path, O_RDWR | O_CREAT);
    std::filesystem::resize_file(path, static_cast<std::uintmax_t>(bytes));
    EXPECT_TRUE(!removed || ::unlink(path.c_str()) == 0);
    const std::uint64_t before = driver->queue().statistics().pool_operations;
    file.close();
    return driver->queue().statistics().pool_operations > before;
  };
  EXPECT_TRUE(closed_by_threads(most + 1, true));
  write_file(path, "");
  std::filesystem::resize_file(path, static_cast<std::uintmax_t>(most + 1));
  auto read = must_open(path, O_RDONLY);
  EXPECT_EQ(::unlink(path.c_str()), 0);
  const std::uint64_t before = driver->queue().statistics().pool_operations;
  read.close();
  EXPECT_EQ(driver->queue().statistics().pool_operations, before + 1);
  if (mount_number(Descriptor(::open(directory.path().c_str(), O_RDONLY))) == 0) return;
  for (const auto& [bytes, removed] : {std::pair(most + 1, false), std::pair(most, true)})
    EXPECT_TRUE(test::eventually([&] { return !closed_by_threads(bytes, removed); })) << bytes;
}

// Nor on the thread of another queue, which has the file registered and sleeps.
TEST_P(QueueTest, NoOtherQueueEndsALargeFile) {
  const std::string path = directory / "file";
  for (const int direct : {0, O_DIRECT}) {
    File* file = nullptr;
    if (driver->open(path, O_RDWR | O_CREAT | direct, file) == -EINVAL) continue;
    std::filesystem::resize_file(path, LocalMounts::emptied_bytes_max + 1);
    const Descriptor watch(inotify_init1(IN_NONBLOCK));
    ASSERT_GE(inotify_add_watch(watch, path.c_str(), IN_DELETE_SELF), 0);
    ASSERT_EQ(driver->path_call(Kind::unlink, path), 0);
    std::atomic<bool> has_read{false};
    std::atomic<bool> done{false};
    std::thread owner([&] {
      StorageDriver other(*storage, arena.span());
      const auto reads = other.start_pieces(Kind::read, file, arena.data(), 8192, 8);
      other.expect_next(8, 8192);
      has_read = true;
      while (!done)
        other.queue().wait(other.seen(), std::chrono::milliseconds(500));
    });
    EXPECT_TRUE(test::eventually([&] { return has_read.load(); }));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // it waits, as a rule
    EXPECT_EQ(driver->close(file), 0);
    char event[512];
    EXPECT_GT(::read(watch, event, sizeof event), 0) << "a closed file is still held";
    done = true;
    owner.join();
  }
}

// Opened and used by several queues, closed by one: the others must release what they have
// registered, or an unlinked file's space is never freed.
TEST_P(QueueTest, NoQueueKeepsAClosedFileAlive) {
  StorageDriver other(*storage, arena.span());
  const std::string path = directory / "f";
  // From its first path on, the storage keeps one descriptor open: the mount table.
  ASSERT_EQ(driver->path_call(Kind::path_status, path), -ENOENT);
  const std::size_t descriptors = open_descriptors();
  for (const int direct : {0, O_DIRECT}) {
    File* file = nullptr;
    if (driver->open(path, O_RDWR | O_CREAT | direct, file) == -EINVAL) continue;
    for (StorageDriver* each : {driver.get(), &other}) {
      ASSERT_EQ(each->pwrite(file, arena.data(), 65536, 0), 65536);
      // Enough at once that the engine handles them, not the thread.
      const auto reads = each->start_pieces(Kind::read, file, arena.data(), 8192, 8);
      each->expect_next(8, 8192);
    }
    const Descriptor watch(inotify_init1(IN_NONBLOCK));
    ASSERT_GE(inotify_add_watch(watch, path.c_str(), IN_DELETE_SELF), 0);
    ASSERT_EQ(driver->path_call(Kind::unlink, path), 0);
    char event[512];
    EXPECT_EQ(::read(watch, event, sizeof event), -1) << "gone although it is open";
    ASSERT_EQ(driver->close(file), 0);
    EXPECT_TRUE(test::eventually([&] {
      driver->queue().wait(driver->seen(), std::chrono::nanoseconds(1000));
      other.queue().wait(other.seen(), std::chrono::nanoseconds(1000));
      return ::read(watch, event, sizeof event) > 0;
    })) << "a closed file is still held";
  }
  EXPECT_EQ(open_descriptors(), descriptors);
}

TEST_P(QueueTest, WorksOnOneFileFromManyThreads) {
  const auto file = must_open(directory / "f", O_RDWR | O_CREAT);
  test::at_once("transfers of many threads", 3, [&](std::uint64_t index) {
    AlignedBytes memory(1 << 16);
    StorageDriver own(*storage, memory.span());
    for (std::uint64_t round = 0; round < test::scaled(500); ++round) {
      const std::string data = pattern(5000, index * 1000 + round);
      std::memcpy(memory.data(), data.data(), data.size());
      const auto offset = static_cast<std::int64_t>(index * 5000);
      EXPECT_EQ(own.pwrite(file, memory.data(), 5000, offset), 5000);
      std::memset(memory.data(), 0, 5000);
      EXPECT_TRUE(own.finds(file, data, memory.data(), offset));
    }
  });
}

TEST_P(QueueTest, RecordsAppendedByManyQueuesAllArrive) {
  auto file = must_open(directory / "f", O_RDWR | O_CREAT | O_APPEND);
  constexpr std::size_t record = 100;
  const std::uint64_t rounds = test::scaled(500);
  std::vector<std::vector<std::uint64_t>> ends(3);
  test::at_once("appends of many queues", 3, [&](std::uint64_t index) {
    StorageDriver own(*storage);
    for (std::uint64_t round = 0; round < rounds; ++round) {
      const std::string data = pattern(record, index * 100'000 + round);
      std::uint64_t value = 0;
      if (own.append(file, data.data(), record, value) == record) ends[index].push_back(value);
    }
  });
  file.close();
  const std::string all = test::read_file(directory / "f");
  ASSERT_EQ(all.size(), 3 * rounds * record);
  for (std::uint64_t index = 0; index < 3; ++index) {
    ASSERT_EQ(ends[index].size(), rounds);
    for (std::uint64_t round = 0; round < rounds; ++round) {
      ASSERT_EQ(all.substr(ends[index][round] - record, record),
                pattern(record, index * 100'000 + round));
    }
  }
}

// Dirty pages of the file, waiting or in flight; -1 if unknown (before Linux 6.5). The next
// write-out skips those in flight, if dirtied again.
std::int64_t unwritten_pages(int fd) {
  constexpr long number = 451;  // cachestat
  struct {
    std::uint64_t offset, bytes;
  } range{0, 0};
  struct {
    std::uint64_t cached, dirty, writeback, evicted, recently_evicted;
  } counts{};
  if (syscall(number, fd, &range, &counts, 0) != 0) return -1;
  return static_cast<std::int64_t>(counts.dirty + counts.writeback);
}

TEST_P(QueueTest, AWriteWhoseSyncFollowsIsWrittenOutAtOnce) {
  constexpr std::size_t bytes = 1 << 20;
  struct statfs file_system {};
  ASSERT_EQ(statfs(directory.path().c_str(), &file_system), 0);
  if (file_system.f_type == TMPFS_MAGIC) GTEST_SKIP() << directory.path() << " is in memory";
  const std::string data = pattern(bytes, 1);
  std::memcpy(arena.data(), data.data(), bytes);
  auto file = must_open(directory / "f", O_RDWR | O_CREAT);
  const Descriptor fd(::open((directory / "f").c_str(), O_RDONLY));
  if (unwritten_pages(fd) < 0) GTEST_SKIP() << "the kernel does not count such pages";
  // The kernel would start itself after half a minute.
  constexpr std::chrono::seconds limit{15};
  for (int round = 0; round < 3; ++round) {
    DrivenTransfer write(Kind::write, file, arena.data(), bytes);
    write.sync_follows = true;
    ASSERT_EQ(driver->run(write), bytes);
    EXPECT_TRUE(test::eventually([&] { return unwritten_pages(fd) == 0; }, limit)) << round;
  }
  EXPECT_EQ(driver->simple(Kind::sync, file), 0);
  file.close();
  EXPECT_EQ(test::read_file(directory / "f"), data);
}

// What is written out needs neither the open file nor the queue.
TEST_P(QueueTest, WriteOutsOutliveTheirFileAndTheirQueue) {
  constexpr std::size_t bytes = 256 << 10;
  const std::string data = pattern(bytes, 2);
  std::memcpy(arena.data(), data.data(), bytes);
  for (int round = 0; round < 20; ++round) {
    StorageDriver own(*storage, arena.span(), 4);
    const std::string path = directory / std::to_string(round);
    File* file = own.must_open(path, O_RDWR | O_CREAT);
    for (int part = 0; part < 12; ++part) {
      DrivenTransfer write(Kind::write, file, arena.data(), bytes, part * std::int64_t{bytes});
      write.sync_follows = true;
      ASSERT_EQ(own.run(write), bytes);
    }
    ASSERT_EQ(own.close(file), 0);
    // Nothing of this file may reach the next one, which has its descriptor.
    if (round > 0) {
      const std::string all = test::read_file(directory / std::to_string(round - 1));
      ASSERT_EQ(all.size(), 12 * bytes);
      ASSERT_EQ(all.substr(11 * bytes), data);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Engines, QueueTest, testing::Values(Engine::io_uring, Engine::threads),
                         [](const auto& each) {
                           return std::string(each.param == Engine::io_uring ? "uring" : "threads");
                         });

TEST(Posix, DescribesItself) {
  const auto threads = make_posix(Engine::threads);
  EXPECT_EQ(threads->describe().name, "posix");
  EXPECT_EQ(threads->describe().engine, "threads");
  EXPECT_EQ(threads->describe().notes.size(), 1U);
  const auto automatic = make_posix(Engine::automatic);
  const Description description = automatic->describe();
  EXPECT_TRUE(description.engine == "io_uring" || description.engine == "threads");
  if (description.engine == "threads") {
    EXPECT_FALSE(description.notes.empty());
    EXPECT_THROW(make_posix(Engine::io_uring), std::system_error);
  }
}

class InlineCalls : public testing::Test {
 protected:
  using Clock = InlinePolicy::Clock;
  // A call that the thread begins now, with so many waits in it.
  void call(Clock::duration takes, std::uint64_t waits) {
    const Clock::time_point begin = now;
    now += takes;
    waits_in_all += waits;
    policy.took(begin, now, [&] { return waits_in_all; });
  }

  InlinePolicy policy;
  Clock::time_point now{std::chrono::hours(1)};
  std::uint64_t waits_in_all = 7;
  static constexpr Clock::duration long_time = 2 * InlinePolicy::slow;
};

TEST_F(InlineCalls, PauseAfterOneThatWaited) {
  EXPECT_TRUE(policy.allows(now));
  policy.rested(waits_in_all);
  call(InlinePolicy::slow, 1);
  EXPECT_TRUE(policy.allows(now)) << "short enough";
  call(long_time, 1);
  EXPECT_FALSE(policy.allows(now));
  EXPECT_FALSE(policy.allows(now + InlinePolicy::pause - std::chrono::nanoseconds(1)));
  EXPECT_TRUE(policy.allows(now + InlinePolicy::pause));
}

TEST_F(InlineCalls, PauseAfterSeveralThatWereHeldUp) {
  policy.rested(waits_in_all);
  for (unsigned i = 1; i < InlinePolicy::long_calls_max; ++i) {
    call(long_time, 0);
    EXPECT_TRUE(policy.allows(now)) << i;
  }
  call(long_time, 0);
  EXPECT_FALSE(policy.allows(now));
}

TEST_F(InlineCalls, GoOnWhereFewAreHeldUpNowAndThen) {
  policy.rested(waits_in_all);
  for (int i = 0; i < 10; ++i) {
    call(long_time, 0);
    EXPECT_TRUE(policy.allows(now)) << i;
    now += InlinePolicy::pause;
    call(std::chrono::microseconds(1), 0);
    now += std::chrono::nanoseconds(1);
  }
}

TEST_F(InlineCalls, DoNotCountTheThreadsOwnSleep) {
  policy.rested(waits_in_all);
  waits_in_all += 5;
  policy.rested(waits_in_all);
  call(long_time, 0);
  EXPECT_TRUE(policy.allows(now));
}

TEST(Waits, AreCountedOfAThreadThatSleeps) {
  const std::uint64_t before = waits_so_far();
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_GT(waits_so_far(), before);
}

}  // namespace
}  // namespace ferry::storage
