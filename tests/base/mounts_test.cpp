#include "base/mounts.hpp"

#include <system_error>

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "support/files.hpp"

namespace ferry {
namespace {

TEST(ParseMount, ReadsAllFields) {
  const Mount mount = parse_mount(
      "36 35 98:7 /mnt1 /mnt/my\\040disk rw,noatime shared:1 master:2 - ext3 /dev/root "
      "rw,noatime,errors=continue");
  EXPECT_EQ(mount.point, "/mnt/my disk");
  EXPECT_EQ(mount.type, "ext3");
  EXPECT_EQ(mount.source, "/dev/root");
  EXPECT_EQ(mount.options, "rw,noatime,errors=continue");
  EXPECT_EQ(mount.device, makedev(98, 7));
}

TEST(ParseMount, NeedsNoOptionalFields) {
  const Mount mount = parse_mount("25 24 0:23 / /dev/shm rw - tmpfs tmpfs rw,size=4k");
  EXPECT_EQ(mount.type, "tmpfs");
  EXPECT_EQ(mount.options, "rw,size=4k");
  EXPECT_EQ(mount.device, makedev(0, 23));
}

TEST(ParseMount, OptionsAreFound) {
  const Mount mount = parse_mount(
      "90 27 0:50 / /m rw,relatime - overlay overlay rw,lowerdir=/l,upperdir=/u\\040p,workdir=/w");
  EXPECT_EQ(option_of(mount, "upperdir"), "/u p");
  EXPECT_EQ(option_of(mount, "dir"), "");
  EXPECT_EQ(option_of(mount, "rw"), "");
}

TEST(LiesUnder, LooksAtWholeNames) {
  EXPECT_TRUE(lies_under("/mnt/a", "/mnt"));
  EXPECT_TRUE(lies_under("/mnt", "/mnt"));
  EXPECT_FALSE(lies_under("/mnta", "/mnt"));
  EXPECT_TRUE(lies_under("/a", "/"));
}

TEST(MountOf, KnowsTheDeviceOfItsFiles) {
  const test::ScratchDirectory directory;
  test::write_file(directory / "f", "x");
  struct stat status {};
  ASSERT_EQ(::stat((directory / "f").c_str(), &status), 0);
  const Mount mount = mount_of(directory / "f");
  EXPECT_FALSE(mount.type.empty());
  if (mount.type == "btrfs" || mount.type == "overlay") return;  // their files have other numbers
  EXPECT_EQ(mount.device, status.st_dev);
}

TEST(MountOf, SaysWhatIsNotThere) {
  const test::ScratchDirectory directory;
  EXPECT_THROW(mount_of(directory / "nothing"), std::system_error);
}

TEST(BlockDevice, MemoryHasNone) {
  EXPECT_TRUE(block_device_folder(makedev(0, 1), "tmpfs").empty());
}

}  // namespace
}  // namespace ferry
