#include "storage/posix/local_mounts.hpp"

#include <filesystem>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/files.hpp"
#include "support/within.hpp"

namespace ferry::storage {
namespace {

using test::Descriptor;
using test::ScratchDirectory;
using test::write_file;

std::uint64_t mount_of(const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return mount_number(file);
}

class LocalMountsTest : public testing::Test {
 protected:
  void SetUp() override {
    write_file(directory / "file", "abc");
    if (mount_of(directory / "file") == 0) {
      GTEST_SKIP() << "absent: this kernel has no number for a mount that it does not use again";
    }
    mounts.learn(mount_of(directory / "file"), false);
  }
  // A lookup that must not wait gives up if others rename or mount at that moment.
  bool finds(const std::string& path, const PathUse& use = {}) {
    for (int attempt = 0; attempt < 100; ++attempt) {
      const Descriptor found(mounts.find(path.c_str(), use));
      if (found >= 0) return true;
    }
    return false;
  }

  ScratchDirectory directory;
  LocalMounts mounts;
};

TEST_F(LocalMountsTest, FindsFilesAndDirectoriesThere) {
  EXPECT_TRUE(test::eventually([&] { return finds(directory / "file"); }));
  EXPECT_TRUE(test::eventually([&] { return finds(directory / "."); }));
  EXPECT_FALSE(finds(directory / "absent"));
}

TEST_F(LocalMountsTest, NothingOnOtherMounts) {
  const std::string other = mount_of("/dev/shm") == mount_of(directory / "file") ? "/" : "/dev/shm";
  ASSERT_NE(mount_of(other), mount_of(directory / "file"));
  EXPECT_FALSE(finds(other));
  mounts.learn(mount_of(other), false);
  EXPECT_TRUE(test::eventually([&] { return finds(other); }));
  EXPECT_TRUE(test::eventually([&] { return finds(directory / "file"); }));
}

TEST_F(LocalMountsTest, NothingThatOpeningMayWaitFor) {
  ASSERT_EQ(::mkfifo((directory / "pipe").c_str(), 0600), 0);
  EXPECT_FALSE(finds(directory / "pipe"));
}

TEST_F(LocalMountsTest, LinksAreFollowedOrNot) {
  const std::filesystem::path link(directory / "link");
  std::filesystem::create_symlink("file", link);
  // The first use after the tick of the clock in which a link was made sets its access time. A
  // lookup that must not wait gives up for that.
  EXPECT_TRUE(test::eventually([&] { return std::filesystem::exists(link) && finds(link); }));
  EXPECT_FALSE(finds(directory / "link", {.follows_last_link = false}))
      << "the link itself is neither";
}

TEST_F(LocalMountsTest, NoneIsKnownAtFirst) {
  mounts = {};
  EXPECT_FALSE(finds(directory / "file"));
  mounts.learn(0, false);
  EXPECT_FALSE(finds(directory / "file"));
}

TEST_F(LocalMountsTest, TheOldestIsForgotten) {
  for (std::uint64_t other = 1; other <= 15; ++other)
    mounts.learn(~other, false);
  EXPECT_TRUE(test::eventually([&] { return finds(directory / "file"); }));
  mounts.learn(~std::uint64_t{16}, false);
  EXPECT_FALSE(finds(directory / "file"));
}

// From the working directory, as in the root's file system other tests may mount and rename.
class PathsFromAStart : public LocalMountsTest {
 protected:
  void SetUp() override {
    go_to(directory / ".");
    LocalMountsTest::SetUp();
  }
  void TearDown() override { std::filesystem::current_path(before); }
  static void go_to(const std::string& folder) { std::filesystem::current_path(folder); }
  static std::string other_mount() {
    return mount_of("/dev/shm") == mount_of(".") ? "/proc" : "/dev/shm";
  }

  bool opens(const std::string& path) {
    const Descriptor opened(mounts.open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC, facts));
    return opened >= 0;
  }

  const std::filesystem::path before = std::filesystem::current_path();
  FileFacts facts;
};

TEST_F(PathsFromAStart, AreOpenedWithOneCall) {
  ASSERT_TRUE(test::eventually([&] { return opens("file"); }));
  struct stat status {};
  ASSERT_EQ(::stat("file", &status), 0);
  EXPECT_EQ(facts.mode, status.st_mode);
  EXPECT_EQ(facts.device, status.st_dev);
  EXPECT_EQ(facts.inode, status.st_ino);
  EXPECT_EQ(facts.size_bytes, 3U);
  EXPECT_EQ(facts.mount, mount_of("file"));
  EXPECT_FALSE(opens("absent"));
  if (mount_of("/") == mount_of("file")) {
    EXPECT_TRUE(test::eventually([&] { return opens(directory / "file"); }));
  }
}

TEST_F(PathsFromAStart, ThatLeaveItsMountRestForAWhile) {
  ASSERT_TRUE(test::eventually([&] { return opens("file"); }));
  mounts.learn(mount_of(other_mount()), false);
  const auto up = std::filesystem::relative(other_mount());
  const auto rests = [&] {
    EXPECT_FALSE(opens(up)) << "on a known mount, but a call cannot tell that before it opens";
    if (Descriptor(mounts.find(up.c_str(), {})) < 0) return false;
    unsigned refused = 0;
    while (refused < 1000 && !opens("file"))
      ++refused;
    return refused >= 64 && refused < 1000;
  };
  EXPECT_TRUE(test::eventually(rests));
}

TEST_F(PathsFromAStart, OnUnknownMountsAreNotOpened) {
  ASSERT_TRUE(test::eventually([&] { return opens("file"); }));
  go_to(other_mount());
  for (int attempt = 0; attempt < 100; ++attempt)
    EXPECT_FALSE(opens("."));
  mounts.learn(mount_of("."), false);
  EXPECT_TRUE(test::eventually([&] { return opens("."); }));
  go_to(directory / ".");
  EXPECT_TRUE(test::eventually([&] { return opens("file"); }));
}

TEST_F(PathsFromAStart, WithDevicesAreOpenedOnceAtMost) {
  mounts.learn(mount_of("/dev"), false);
  go_to("/dev");
  ASSERT_TRUE(test::eventually([&] { return opens("."); }));
  ASSERT_TRUE(test::eventually([&] { return opens("null"); }));
  EXPECT_FALSE(opens(".")) << "opening such things may take its time";
}

TEST_F(PathsFromAStart, OfAPipeChangeNothing) {
  ASSERT_EQ(::mkfifo("pipe", 0600), 0);
  ASSERT_TRUE(test::eventually([&] { return opens("pipe"); }));
  EXPECT_TRUE(test::eventually([&] { return opens("file"); }));
}

// As overlayfs does.
TEST_F(PathsFromAStart, WhereAWriteCopiesAreOnlyRead) {
  mounts = {};
  mounts.learn(mount_of("file"), true);
  EXPECT_TRUE(test::eventually([&] { return opens("file"); }));
  EXPECT_TRUE(test::eventually([&] { return finds("file"); }));
  for (int attempt = 0; attempt < 100; ++attempt) {
    EXPECT_LT(Descriptor(mounts.open("file", O_RDWR | O_CLOEXEC, facts)), 0);
    EXPECT_LT(Descriptor(mounts.find("file", {.writes = true})), 0);
    EXPECT_LT(Descriptor(mounts.find("file", {.empties = true})), 0);
  }
}

TEST_F(LocalMountsTest, EmptyingALargeFileIsNoShortWork) {
  EXPECT_TRUE(test::eventually([&] { return finds(directory / "file", {.empties = true}); }));
  std::filesystem::resize_file(directory / "file", LocalMounts::emptied_bytes_max + 1);
  EXPECT_FALSE(finds(directory / "file", {.empties = true}));
  EXPECT_TRUE(test::eventually([&] { return finds(directory / "file"); }));
}

TEST_F(LocalMountsTest, AMountIsAskedForItsFileSystemOnce) {
  const Descriptor file(::open((directory / "file").c_str(), O_RDONLY));
  const Descriptor other(::open("/proc/version", O_RDONLY));
  const long type = file_system_type(file, mount_number(file));
  EXPECT_NE(type, 0);
  EXPECT_EQ(file_system_type(other, mount_number(file)), type) << "of the mount that is given";
  EXPECT_NE(file_system_type(other, mount_number(other)), type);
  EXPECT_NE(file_system_type(other, 0), type) << "a mount without a number is asked each time";
}

}  // namespace
}  // namespace ferry::storage
