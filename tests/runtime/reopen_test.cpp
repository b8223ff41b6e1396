// What stays in the page cache when a file is closed or opened once more, and what must not.
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <ferry/ferry.hpp>

#include "support/files.hpp"
#include "support/within.hpp"

namespace ferry {
namespace {

using device::Placement;
using test::pattern;
using test::read_file;
using test::same_bytes;

using Calls = device::FileCalls<device::ThreadGroup>;

class Reopen : public testing::Test {
 protected:
  void SetUp() override {
    RuntimeOptions options;
    options.arena_bytes = 4 << 20;
    options.device_threads = 1;
    options.files_max = 8;
    options.cache_bytes = std::uint64_t{256} * 4096;
    options.page_bytes = 4096;
    options.placement = Placement::compute;
    runtime = std::make_unique<Runtime>(options);
    test::write_file(path, data);
  }
  void on_device(const std::function<void(Calls&)>& program) {
    test::within_patience("a device program",
                          [&] { runtime->run([&](DeviceThread& self) { program(self.files); }); });
  }
  // Until the time of the last change can be told from that of one made now.
  static void let_times_settle() { std::this_thread::sleep_for(std::chrono::milliseconds(150)); }
  static std::string contents(Calls& files, int file) {
    std::string got(20'000, '\0');
    const std::int64_t bytes = files.pread(file, got.data(), got.size(), 0);
    got.resize(bytes > 0 ? static_cast<std::size_t>(bytes) : 0);
    return got;
  }
  std::string look() { return look(path); }
  std::string look(const std::string& name) {
    std::string got;
    on_device([&](Calls& files) {
      const int file = files.open(name.c_str(), O_RDONLY);
      got = contents(files, file);
      EXPECT_EQ(files.close(file), 0);
    });
    return got;
  }
  std::uint64_t fills() const { return runtime->statistics().cache.fills; }

  test::ScratchDirectory directory;
  const std::string path = directory / "f";
  std::string data = pattern(10'000, 1);
  std::unique_ptr<Runtime> runtime;
};

TEST_F(Reopen, AFileThatNobodyChangedIsStillThere) {
  let_times_settle();
  ASSERT_TRUE(same_bytes(look(), data));
  const std::uint64_t before = fills();
  EXPECT_GT(before, 0U);
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE(same_bytes(look(), data));
  EXPECT_EQ(fills(), before);
}

TEST_F(Reopen, AChangedFileIsReadAgain) {
  let_times_settle();
  ASSERT_TRUE(same_bytes(look(), data));
  // Of the same size, and with its old time of modification.
  struct stat status {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  data = pattern(10'000, 2);
  test::write_file(path, data);
  const timespec times[2] = {status.st_atim, status.st_mtim};
  ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
  EXPECT_TRUE(same_bytes(look(), data));
  let_times_settle();
  EXPECT_TRUE(same_bytes(look(), data));
}

TEST_F(Reopen, ChangesInQuickSuccessionAreAllSeen) {
  for (unsigned i = 0; i < 50; ++i) {
    data = pattern(10'000, i);
    test::write_file(path, data);
    ASSERT_TRUE(same_bytes(look(), data)) << i;
  }
}

TEST_F(Reopen, WhatIsDirtySurvivesWhatOthersWroteBesideIt) {
  let_times_settle();
  on_device([&](Calls& files) {
    const int file = files.open(path.c_str(), O_RDWR);
    ASSERT_TRUE(same_bytes(contents(files, file), data));
    ASSERT_EQ(files.pwrite(file, "ours", 4, 100), 4);
    const test::Descriptor other(::open(path.c_str(), O_WRONLY));
    ASSERT_EQ(::pwrite(other, "theirs", 6, 200), 6);
    data.replace(100, 4, "ours").replace(200, 6, "theirs");
    const int again = files.open(path.c_str(), O_RDONLY);
    EXPECT_TRUE(same_bytes(contents(files, again), data));
    EXPECT_TRUE(same_bytes(contents(files, file), data)) << "one file, however often it is open";
    EXPECT_EQ(files.close(again), 0);
    EXPECT_EQ(files.close(file), 0);
  });
  EXPECT_TRUE(same_bytes(read_file(path), data));
}

TEST_F(Reopen, ARecordWhosePagesStayedIsGivenToAnotherFile) {
  for (int i = 0; i < 30; ++i)
    test::write_file(path + std::to_string(i), pattern(5000, static_cast<unsigned>(i)));
  let_times_settle();
  for (int round = 0; round < 3; ++round)
    for (int i = 0; i < 30; ++i)
      ASSERT_TRUE(
          same_bytes(look(path + std::to_string(i)), pattern(5000, static_cast<unsigned>(i))));
}

TEST_F(Reopen, AFileThatTookTheNameOfAnotherIsNotItsPages) {
  let_times_settle();
  ASSERT_TRUE(same_bytes(look(), data));
  for (unsigned i = 0; i < 10; ++i) {
    ASSERT_EQ(unlink(path.c_str()), 0);
    data = pattern(10'000, 10 + i);
    test::write_file(path, data);  // may well get the same inode number
    ASSERT_TRUE(same_bytes(look(), data));
  }
}

TEST_F(Reopen, EvictedPagesAreReadAgainAndNothingIsLost) {
  on_device([&](Calls& files) {
    const int file = files.open(path.c_str(), O_RDWR);
    ASSERT_TRUE(same_bytes(contents(files, file), data));
    ASSERT_EQ(files.pwrite(file, "dirty", 5, 0), 5);
    data.replace(0, 5, "dirty");
    EXPECT_EQ(files.evict(file), 0);
    EXPECT_TRUE(same_bytes(read_file(path), data)) << "written back first";
    const std::uint64_t before = fills();
    EXPECT_TRUE(same_bytes(contents(files, file), data));
    EXPECT_GT(fills(), before);
    EXPECT_EQ(files.close(file), 0);
    EXPECT_EQ(files.evict(file), -EBADF);
    const int there = files.open(directory.path().c_str(), O_RDONLY | O_DIRECTORY);
    EXPECT_EQ(files.evict(there), 0) << "only advice";
    EXPECT_EQ(files.close(there), 0);
  });
}

}  // namespace
}  // namespace ferry
