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
    mounts.learn(mount_of(directory / "file"));
  }
  // A lookup that must not wait gives up if others rename or mount at that moment.
  bool finds(const std::string& path, bool follows = true) const {
    for (int attempt = 0; attempt < 100; ++attempt) {
      const Descriptor found(mounts.find(path.c_str(), follows));
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
  mounts.learn(mount_of(other));
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
  EXPECT_FALSE(finds(directory / "link", false)) << "the link itself is neither";
}

TEST_F(LocalMountsTest, NoneIsKnownAtFirst) {
  mounts = {};
  EXPECT_FALSE(finds(directory / "file"));
  mounts.learn(0);
  EXPECT_FALSE(finds(directory / "file"));
}

TEST_F(LocalMountsTest, TheOldestIsForgotten) {
  for (std::uint64_t other = 1; other <= 15; ++other)
    mounts.learn(~other);
  EXPECT_TRUE(test::eventually([&] { return finds(directory / "file"); }));
  mounts.learn(~std::uint64_t{16});
  EXPECT_FALSE(finds(directory / "file"));
}

}  // namespace
}  // namespace ferry::storage
