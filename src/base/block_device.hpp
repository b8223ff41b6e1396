// Facts about a block device, from its folder under /sys.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace ferry {

struct BlockDevice {
  std::string name;  // "vda1"
  std::string disk;  // the whole of which it is a part, or itself: "vda"
  // "virtio", "NVMe", "SCSI", "loop", "RAID", "device mapper" or "zram"; empty: none of these.
  std::string kind;
  std::string driver;  // empty if unknown
  // A loop device's file, a RAID's level, or a device-mapper volume's name.
  std::string detail;
  std::vector<std::string> below;  // the devices below
};

// `folder` is a device's or a partition's. Thread-safe.
BlockDevice describe_block_device(const std::filesystem::path& folder);

}  // namespace ferry
