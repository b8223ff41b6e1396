#include "base/mounts.hpp"

#include <cerrno>
#include <string>
#include <system_error>
#include <vector>

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "support/files.hpp"
#include "support/in_a_child.hpp"

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

TEST(WithRoot, AddsTheMountOfARootDirectoryThatIsNoMountPoint) {
  struct stat status {};
  ASSERT_EQ(::stat("/", &status), 0);
  const Mount proc = parse_mount("22 27 0:21 / /proc rw - proc proc rw");
  const std::vector<Mount> mounts = with_root({proc});
  ASSERT_EQ(mounts.size(), 2U);
  EXPECT_EQ(mounts[0].point, "/");
  EXPECT_EQ(mounts[0].device, status.st_dev);
  EXPECT_FALSE(mounts[0].type.empty());
  EXPECT_EQ(mounts[1].point, "/proc");
  EXPECT_EQ(with_root(mounts).size(), 2U) << "there is one already";
}

// Another mount of the same file system knows its name and its device's.
TEST(WithRoot, TakesOverWhatAnotherMountOfTheDeviceSays) {
  struct stat status {};
  ASSERT_EQ(::stat("/", &status), 0);
  Mount other = parse_mount("22 27 0:21 /a /mnt rw - ext9 /dev/sdz rw");
  other.device = status.st_dev;
  const std::vector<Mount> mounts = with_root({other});
  ASSERT_EQ(mounts.size(), 2U);
  EXPECT_EQ(mounts[0].type, "ext9");
  EXPECT_EQ(mounts[0].source, "/dev/sdz");
}

// In another process, because it is permanent. 0 if all is right, 77 if it is not allowed.
int look_from_chroot(const std::string& root) {
  if (::unshare(CLONE_NEWNS) != 0) return 77;
  if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 && errno != EINVAL)
    return 77;
  if (::mount("proc", (root + "/proc").c_str(), "proc", 0, nullptr) != 0) return 77;
  struct stat status {};
  if (::chroot(root.c_str()) != 0 || ::chdir("/") != 0 || ::stat("/f", &status) != 0) return 1;
  const Mount mount = mount_of("/f");
  if (mount.point != "/") return 2;
  return mount.type.empty() || mount.device != status.st_dev ? 3 : 0;
}

TEST(MountOf, KnowsWhereARootDirectoryLiesThatIsNoMountPoint) {
  const test::ScratchDirectory root;
  ASSERT_EQ(::mkdir((root / "proc").c_str(), 0755), 0);
  test::write_file(root / "f", "x");
  const int found = test::in_a_child([&] { return look_from_chroot(root.path()); });
  if (found == 77) GTEST_SKIP() << "absent: the right to mount";
  EXPECT_EQ(found, 0);
}

// In another process: makes a directory on a mount that is shared its root, mounts there, and looks
// from outside. 0 if nothing is to be seen.
int mount_in_chroot(const std::string& root, bool is_folder_removed) {
  if (::unshare(CLONE_NEWNS) != 0) return 77;
  if (::mount("none", root.c_str(), "tmpfs", 0, nullptr) != 0) return 77;
  if (::mount(nullptr, root.c_str(), nullptr, MS_SHARED, nullptr) != 0) return 77;
  const std::string top = root + "/top";  // below the mount, so no mount point
  for (const char* folder : {"", "/proc", "/here", "/here/there"})
    if (::mkdir((top + folder).c_str(), 0755) != 0) return 1;
  test::write_file(top + "/here/file", "x");
  if (::mount("proc", (top + "/proc").c_str(), "proc", 0, nullptr) != 0) return 77;
  const int inside = test::in_a_child([&] {
    if (::chroot(top.c_str()) != 0 || ::chdir("/here") != 0 || ::unshare(CLONE_NEWNS) != 0)
      return 2;
    if (is_folder_removed &&
        (::mkdir("gone", 0755) != 0 || ::chdir("gone") != 0 || ::rmdir("/here/gone") != 0))
      return 2;
    keep_mounts_inside();
    if (test::read_file("/here/file") != "x") return 3;
    if (!is_folder_removed && test::read_file("file") != "x") return 3;
    if (is_folder_removed && ::mkdir("new", 0755) == 0) return 3;
    if (::mount("none", "/here/there", "tmpfs", 0, nullptr) != 0) return 4;
    test::write_file("/here/there/new", "y");
    return ::access("/proc/self/mountinfo", R_OK) == 0 ? 0 : 5;
  });
  if (inside != 0) return inside;
  // A mount would have arrived here, and stayed.
  return ::access((top + "/here/there/new").c_str(), F_OK) == 0 ? 6 : 0;
}

TEST(KeepMountsInside, WorksWhereTheRootDirectoryIsNoMountPoint) {
  for (const bool is_folder_removed : {false, true}) {
    const test::ScratchDirectory root;
    const int found =
        test::in_a_child([&] { return mount_in_chroot(root.path(), is_folder_removed); });
    if (found == 77) GTEST_SKIP() << "absent: the right to mount";
    EXPECT_EQ(found, 0) << is_folder_removed;
  }
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
