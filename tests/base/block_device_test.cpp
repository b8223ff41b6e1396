// Facts about block devices, from folders like those of /sys/block.
#include "base/block_device.hpp"

#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "support/files.hpp"

namespace ferry {
namespace {

namespace fs = std::filesystem;

class BlockDevices : public testing::Test {
 protected:
  fs::path folder(const std::string& name) {
    const fs::path made = fs::path(root.path()) / name;
    fs::create_directories(made);
    return made;
  }
  void file(const std::string& name, const std::string& text) {
    fs::create_directories((fs::path(root.path()) / name).parent_path());
    test::write_file(root / name, text);
  }

  test::ScratchDirectory root;
};

TEST_F(BlockDevices, AVirtioDiskAndItsPartition) {
  folder("drivers/virtio_blk");
  folder("vda/device");
  fs::create_directory_symlink(root / "drivers/virtio_blk", root / "vda/device/driver");
  file("vda/vda1/partition", "1\n");
  for (const char* name : {"vda", "vda/vda1"}) {
    const BlockDevice device = describe_block_device(fs::path(root.path()) / name);
    EXPECT_EQ(device.disk, "vda");
    EXPECT_EQ(device.name, fs::path(name).filename());
    EXPECT_EQ(device.kind, "virtio");
    EXPECT_EQ(device.driver, "virtio_blk");
    EXPECT_TRUE(device.below.empty());
  }
}

TEST_F(BlockDevices, TheDriverOfAnNvmeDiskIsThatOfItsController) {
  folder("drivers/nvme");
  folder("nvme0n1/device/device");
  fs::create_directory_symlink(root / "drivers/nvme", root / "nvme0n1/device/device/driver");
  const BlockDevice device = describe_block_device(folder("nvme0n1"));
  EXPECT_EQ(device.kind, "NVMe");
  EXPECT_EQ(device.driver, "nvme");
}

TEST_F(BlockDevices, ALoopDeviceNamesItsFile) {
  file("loop3/loop/backing_file", "/images/a b.img\n");
  const BlockDevice device = describe_block_device(folder("loop3"));
  EXPECT_EQ(device.kind, "loop");
  EXPECT_EQ(device.detail, "/images/a b.img");
  EXPECT_EQ(device.driver, "");
}

TEST_F(BlockDevices, RaidsAndVolumesNameWhatTheyAreMadeOf) {
  file("md0/md/level", "raid0\n");
  folder("md0/slaves/sdb");
  folder("md0/slaves/sda");
  const BlockDevice raid = describe_block_device(folder("md0"));
  EXPECT_EQ(raid.kind, "RAID");
  EXPECT_EQ(raid.detail, "raid0");
  EXPECT_EQ(raid.below, (std::vector<std::string>{"sda", "sdb"}));
  file("dm-0/dm/name", "vg-home\n");
  folder("dm-0/slaves/md0");
  const BlockDevice volume = describe_block_device(folder("dm-0"));
  EXPECT_EQ(volume.kind, "device mapper");
  EXPECT_EQ(volume.detail, "vg-home");
  EXPECT_EQ(volume.below, std::vector<std::string>{"md0"});
}

TEST_F(BlockDevices, OthersAreToldByTheirNames) {
  EXPECT_EQ(describe_block_device(folder("sdb")).kind, "SCSI");
  EXPECT_EQ(describe_block_device(folder("zram0")).kind, "zram");
  EXPECT_EQ(describe_block_device(folder("odd0")).kind, "");
}

}  // namespace
}  // namespace ferry
