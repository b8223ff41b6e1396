#include "storage/posix/local_mounts.hpp"

#include <cerrno>
#include <climits>
#include <cstring>
#include <filesystem>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/magic.h>
#include <sys/mount.h>
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

// That the file system on the mount of `path` was met.
void meet(FileSystemTypes& types, const std::string& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  types.of(file, mount_number(file));
}

class LocalMountsTest : public testing::Test {
 protected:
  void SetUp() override {
    write_file(directory / "file", "abc");
    if (mount_of(directory / "file") == 0) {
      GTEST_SKIP() << "absent: this kernel has no number for a mount that it does not use again";
    }
    meet(types, directory / "file");
  }
  // A lookup that must not wait gives up if others rename or mount at that moment.
  bool finds(const std::string& path, const PathUse& use = {}) {
    for (int attempt = 0; attempt < 100; ++attempt)
      if (finds_now(path, use)) return true;
    return false;
  }
  bool finds_now(const std::string& path, const PathUse& use = {}) {
    struct statx status {};
    const Descriptor found(mounts.find(path.c_str(), use, status));
    if (found < 0) return false;
    struct stat same {};
    EXPECT_EQ(::fstat(found, &same), 0);
    EXPECT_EQ(status.stx_ino, same.st_ino) << path;
    return true;
  }
  bool creates(const std::string& path, int flags = O_RDWR) {
    flags |= O_CREAT | O_EXCL | O_NONBLOCK | O_CLOEXEC;
    return Descriptor(mounts.create(path.c_str(), flags, 0600)) >= 0;
  }

  ScratchDirectory directory;
  FileSystemTypes types;
  LocalMounts mounts{types};
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
  meet(types, other);
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
  FileSystemTypes none;
  LocalMounts strangers(none);
  struct statx status {};
  for (int attempt = 0; attempt < 100; ++attempt)
    EXPECT_LT(Descriptor(strangers.find((directory / "file").c_str(), {}, status)), 0);
  none.add(mount_of(directory / "file"), NFS_SUPER_MAGIC);
  for (int attempt = 0; attempt < 100; ++attempt)
    EXPECT_LT(Descriptor(strangers.find((directory / "file").c_str(), {}, status)), 0);
}

TEST_F(LocalMountsTest, ManyAreKnownAtATime) {
  const test::OwnMount own("size=1m");
  if (!own) GTEST_SKIP() << own.why();
  meet(types, directory / "file");  // in other mounts now
  EXPECT_TRUE(test::eventually([&] { return finds(directory / "file"); }));
  for (int each = 0; each < 20; ++each) {
    const std::string other = own / std::to_string(each);
    std::filesystem::create_directory(other);
    ASSERT_EQ(::mount("tmpfs", other.c_str(), "tmpfs", 0, "size=64k"), 0);
    meet(types, other);
    EXPECT_TRUE(test::eventually([&] { return finds(other); }));
  }
  EXPECT_TRUE(test::eventually([&] { return finds(directory / "file"); }));
}

// By a call that may wait, for calls that may not.
TEST_F(LocalMountsTest, AreMetByAPath) {
  const test::OwnMount own("size=1m");
  if (!own) GTEST_SKIP() << own.why();
  write_file(own / "file", "abc");
  LocalMounts of_this_process;
  const auto finds_there = [&] {
    struct statx status {};
    return Descriptor(of_this_process.find((own / "file").c_str(), {}, status)) >= 0;
  };
  for (int attempt = 0; attempt < 100; ++attempt)
    EXPECT_FALSE(finds_there());
  struct statx status {};
  EXPECT_EQ(look_up((own / "absent").c_str(), true, status), -ENOENT);
  EXPECT_FALSE(finds_there());
  EXPECT_EQ(look_up((own / "file").c_str(), true, status), 0);
  EXPECT_EQ(status.stx_size, 3U);
  EXPECT_TRUE(test::eventually(finds_there));
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
  meet(types, other_mount());
  const auto up = std::filesystem::relative(other_mount());
  const auto rests = [&] {
    EXPECT_FALSE(opens(up)) << "on a known mount, but a call cannot tell that before it opens";
    if (!finds_now(up)) return false;
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
  meet(types, ".");
  EXPECT_TRUE(test::eventually([&] { return opens("."); }));
  go_to(directory / ".");
  EXPECT_TRUE(test::eventually([&] { return opens("file"); }));
}

TEST_F(PathsFromAStart, WithDevicesAreOpenedOnceAtMost) {
  meet(types, "/dev");
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
  types.add(mount_of("file"), OVERLAYFS_SUPER_MAGIC);
  EXPECT_TRUE(test::eventually([&] { return opens("file"); }));
  EXPECT_TRUE(test::eventually([&] { return finds("file"); }));
  for (int attempt = 0; attempt < 100; ++attempt) {
    EXPECT_LT(Descriptor(mounts.open("file", O_RDWR | O_CLOEXEC, facts)), 0);
    EXPECT_FALSE(finds_now("file", {.writes = true}));
    EXPECT_FALSE(finds_now("file", {.empties = true}));
    EXPECT_FALSE(finds_now("file", {.removes = true}));
    EXPECT_FALSE(creates("new"));
  }
}

TEST_F(LocalMountsTest, EmptyingALargeFileIsNoShortWork) {
  EXPECT_TRUE(test::eventually([&] { return finds(directory / "file", {.empties = true}); }));
  std::filesystem::resize_file(directory / "file", LocalMounts::emptied_bytes_max + 1);
  EXPECT_FALSE(finds(directory / "file", {.empties = true}));
  EXPECT_FALSE(finds(directory / "file", {.removes = true}));
  EXPECT_TRUE(test::eventually([&] { return finds(directory / "file"); }));
}

// Its size tells nothing of blocks that were allocated in advance.
TEST_F(LocalMountsTest, RemovingAFileOfManyBlocksIsNoShortWork) {
  const std::string path = directory / "file";
  const Descriptor file(::open(path.c_str(), O_WRONLY));
  constexpr auto bytes = static_cast<off_t>(LocalMounts::emptied_bytes_max) + 4096;
  if (::fallocate(file, FALLOC_FL_KEEP_SIZE, 0, bytes) != 0) GTEST_SKIP() << std::strerror(errno);
  EXPECT_TRUE(test::eventually([&] { return finds(path, {.writes = true}); }));
  EXPECT_FALSE(finds(path, {.empties = true}));
  EXPECT_FALSE(finds(path, {.removes = true}));
}

// open(2) refuses such a path, though its folder and its name are short enough.
TEST_F(LocalMountsTest, MakeNothingAtAPathThatIsTooLong) {
  std::string path = directory / "new";
  ASSERT_TRUE(test::eventually([&] { return creates(path); }));
  const std::string name(200, 'n');
  path = directory.path() + "/";
  while (path.size() + name.size() < PATH_MAX)
    path += "./";
  EXPECT_LT(path.size(), std::size_t{PATH_MAX});
  EXPECT_FALSE(creates(path + name));
  EXPECT_FALSE(std::filesystem::exists(directory / name));
}

TEST_F(LocalMountsTest, MakeWhatIsNotThere) {
  const std::string path = directory / "new";
  ASSERT_TRUE(test::eventually([&] { return creates(path); }));
  struct stat status {};
  ASSERT_EQ(::stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode, S_IFREG | 0600);
  // A name that leads away is not followed, neither is one that stays.
  std::filesystem::create_symlink("absent", directory / "dangling");
  for (const char* taken : {"new", "file", "dangling", ".", "..", "", "dir/", "absent/below"})
    EXPECT_FALSE(creates(directory / taken)) << taken;
  EXPECT_FALSE(std::filesystem::exists(directory / "absent"));
  EXPECT_TRUE(finds(path, {.removes = true}));
}

TEST_F(LocalMountsTest, MakeNothingOnOtherMounts) {
  const std::string other = mount_of("/dev/shm") == mount_of(directory / "file") ? "/" : "/dev/shm";
  const std::string name = "/ferry-test-" + std::to_string(::getpid());
  EXPECT_FALSE(creates(other + name));
  EXPECT_FALSE(std::filesystem::exists(other + name));
}

// Of a file in this file system, which hides the one of its name: the system refuses that at once,
// but the folder may be one that does not answer.
TEST(HiddenFiles, AreNotRemovedAtOnce) {
  const test::OwnMount own("size=1m");
  if (!own) GTEST_SKIP() << own.why();
  write_file(own / "file", "abc");
  write_file(own / "hidden", "abc");
  ASSERT_EQ(::mount((own / "file").c_str(), (own / "hidden").c_str(), nullptr, MS_BIND, nullptr),
            0);
  FileSystemTypes types;
  LocalMounts mounts(types);
  meet(types, own / "file");
  meet(types, own / "hidden");
  const auto removable = [&](const char* name) {
    struct statx status {};
    return Descriptor(mounts.find((own / name).c_str(), {.removes = true}, status)) >= 0;
  };
  EXPECT_TRUE(test::eventually([&] { return removable("file"); }));
  EXPECT_FALSE(removable("hidden"));
  const int flags = O_RDWR | O_CREAT | O_EXCL;
  EXPECT_LT(Descriptor(mounts.create((own / "hidden").c_str(), flags, 0600)), 0);
}

TEST_F(LocalMountsTest, AMountIsAskedForItsFileSystemOnce) {
  const Descriptor file(::open((directory / "file").c_str(), O_RDONLY));
  const Descriptor other(::open("/proc/version", O_RDONLY));
  const long type = types.of(file, mount_number(file));
  EXPECT_NE(type, 0);
  EXPECT_EQ(types.of(other, mount_number(file)), type) << "of the mount that is given";
  EXPECT_NE(types.of(other, mount_number(other)), type);
  EXPECT_NE(types.of(other, 0), type) << "a mount without a number is asked each time";
}

}  // namespace
}  // namespace ferry::storage
