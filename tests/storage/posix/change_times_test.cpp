#include "storage/posix/change_times.hpp"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "storage/posix/posix.hpp"
#include "support/files.hpp"
#include "support/storage_driver.hpp"
#include "support/within.hpp"

namespace ferry::storage::change_times_test {
namespace {

using File = ChangeTimes::File;

constexpr std::int64_t second = 1'000'000'000;
constexpr std::int64_t changed = 1'700'000'000 * second + 1;
constexpr std::int64_t later = changed + 3 * second;

TEST(ChangeTimes, ATimeProvesNothingBeforeItIsATickOld) {
  ChangeTimes times;
  const auto at = [&](std::int64_t when, std::int64_t age_ms) {
    return times.version(File{1, 7}, when, when + age_ms * 1'000'000, [] { return true; });
  };
  EXPECT_EQ(at(changed, 0), 0U);
  EXPECT_EQ(at(changed, 100), 0U);
  EXPECT_EQ(at(changed, -5000), 0U) << "the clock was set back";
  EXPECT_EQ(at(changed, 101), static_cast<std::uint64_t>(changed));
  const std::int64_t whole = changed - 1;  // from a clock of seconds
  EXPECT_EQ(at(whole, 2000), 0U);
  EXPECT_EQ(at(whole, 2001), static_cast<std::uint64_t>(whole));
}

TEST(ChangeTimes, ATimeProvesNothingBeforeTheFileWasQuiet) {
  ChangeTimes times;
  int asked = 0;
  const auto ask = [&](std::int64_t when, bool quiet) {
    return times.version(File{1, 7}, when, later, [&] {
      ++asked;
      return quiet;
    });
  };
  EXPECT_EQ(ask(changed, false), 0U);
  EXPECT_EQ(ask(changed, false), 0U) << "however old";
  EXPECT_NE(ask(changed, true), 0U);
  EXPECT_EQ(asked, 3);
  // A writer now first sets another time.
  EXPECT_NE(ask(changed, false), 0U);
  EXPECT_EQ(asked, 3);
  EXPECT_EQ(ask(changed + 1, false), 0U);
  EXPECT_EQ(asked, 4);
  EXPECT_NE(ask(changed, false), 0U);
}

TEST(ChangeTimes, EachFileHasItsOwn) {
  ChangeTimes times;
  const auto ask = [&](File file, bool quiet) {
    return times.version(file, changed, later, [&] { return quiet; });
  };
  EXPECT_NE(ask(File{1, 7}, true), 0U);
  EXPECT_EQ(ask(File{1, 8}, false), 0U);
  EXPECT_EQ(ask(File{2, 7}, false), 0U);
  EXPECT_NE(ask(File{1, 7}, false), 0U);
}

TEST(ChangeTimes, AFileThatWasForgottenHasToBeQuietAgain) {
  ChangeTimes times;
  const auto ask = [&](std::uint64_t inode, bool quiet) {
    return times.version(File{1, inode}, changed, later, [&] { return quiet; });
  };
  for (std::uint64_t inode = 0; inode <= ChangeTimes::files_max; ++inode)
    ASSERT_NE(ask(inode, true), 0U);
  EXPECT_EQ(ask(0, false), 0U);
  for (std::uint64_t inode = ChangeTimes::files_max / 2 + 1; inode <= ChangeTimes::files_max;
       ++inode)
    EXPECT_NE(ask(inode, false), 0U) << "file " << inode;
}

// The storage's answer for files on this machine's disk.
class FileVersion : public testing::Test {
 protected:
  // Old enough that only writers matter.
  void SetUp() override {
    test::write_file(path, "bytes");
    std::this_thread::sleep_for(std::chrono::milliseconds(150));
  }
  std::uint64_t version(int flags = O_RDONLY) { return version_of(path, flags); }
  std::uint64_t version_of(const std::string& name, int flags = O_RDONLY) {
    const test::DrivenFile file(driver, driver.must_open(name, flags));
    Status status;
    EXPECT_EQ(driver.file_status(file, status), 0);
    return status.version;
  }
  bool stamps_changes() const {
    struct statfs status {};
    if (statfs(path.c_str(), &status) != 0) return false;
    const auto type = static_cast<long>(status.f_type);
    return type == EXT4_SUPER_MAGIC || type == XFS_SUPER_MAGIC || type == BTRFS_SUPER_MAGIC;
  }

  test::ScratchDirectory directory;
  const std::string path = directory / "f";
  std::unique_ptr<Storage> storage = make_posix(Engine::threads);
  test::StorageDriver driver{*storage};
};

TEST_F(FileVersion, IsNotThereWhileAnyoneCouldWrite) {
  const auto nobody = static_cast<std::uint64_t>(stamps_changes());
  int fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  EXPECT_EQ(version(), 0U) << "open for writing";
  void* mapped = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  ASSERT_NE(mapped, MAP_FAILED);
  ::close(fd);
  EXPECT_EQ(version(), 0U) << "mapped, and the descriptor closed";
  munmap(mapped, 4096);
  EXPECT_EQ(version(O_RDWR), 0U) << "by the very descriptor";
  const std::uint64_t quiet = version();
  EXPECT_EQ(quiet != 0, nobody != 0);
  // Proven once, it is good until the time changes.
  EXPECT_EQ(version(O_RDWR), quiet);
  fd = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  EXPECT_EQ(version(), quiet);
  ASSERT_EQ(::pwrite(fd, "other", 5, 0), 5);
  EXPECT_EQ(version(), 0U);
  ::close(fd);
}

TEST_F(FileVersion, IsNotThereWhereStoresThroughAMappingLeaveTheTimeAsItIs) {
  const std::string shared = "/dev/shm";
  struct statfs status {};
  if (statfs(shared.c_str(), &status) != 0 || status.f_type != TMPFS_MAGIC)
    GTEST_SKIP() << "no tmpfs at " << shared;
  const test::ScratchDirectory memory(shared);
  const std::string name = memory / "f";
  test::write_file(name, "bytes");
  std::this_thread::sleep_for(std::chrono::milliseconds(150));
  EXPECT_EQ(version_of(name), 0U);
}

// By one descriptor, while others open the file for writing; no signal may end this process.
TEST_F(FileVersion, IsLookedForByManyAtOnce) {
  const test::Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_GE(fd, 0);
  std::atomic<bool> stop{false};
  std::vector<std::jthread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back([&] {
      while (!stop)
        has_no_writers(fd);
    });
  }
  for (int i = 0; i < 1000; ++i) {
    const test::Descriptor writer(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    EXPECT_GE(writer, 0);
    EXPECT_FALSE(has_no_writers(fd));
  }
  stop = true;
}

// Checking whether a file is quiet delays openers briefly, and others may hold leases longer.
TEST_F(FileVersion, OpeningWaitsForAnotherProcessToEndItsLease) {
  const test::Descriptor holder(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_GE(holder, 0);
  ASSERT_EQ(fcntl(holder, F_SETSIG, SIGURG), 0);
  if (fcntl(holder, F_SETLEASE, F_RDLCK) != 0) GTEST_SKIP() << "no leases here";
  EXPECT_EQ(driver.try_open(path, O_WRONLY | O_NONBLOCK), -EWOULDBLOCK);
  std::thread ending([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    fcntl(holder, F_SETLEASE, F_UNLCK);
  });
  EXPECT_EQ(driver.try_open(path, O_WRONLY), 0);
  ending.join();
  ASSERT_EQ(fcntl(holder, F_SETSIG, SIGURG), 0);
  ASSERT_EQ(fcntl(holder, F_SETLEASE, F_RDLCK), 0);
  test::within_patience("giving up", [&] {
    EXPECT_EQ(driver.try_open(path, O_WRONLY), -EAGAIN) << "not for as long as it takes";
  });
}

}  // namespace
}  // namespace ferry::storage::change_times_test
