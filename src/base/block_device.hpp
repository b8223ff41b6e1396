// What a block device is, from its folder under /sys.
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
  std::string driver;  // empty where there is none
  // Of a loop device the file that it is made of, of a RAID its level, of the device mapper the
  // name of the volume.
  std::string detail;
  std::vector<std::string> below;  // the devices that it is made of
};

// `folder` is that of a device or of a partition. Thread-safe.
BlockDevice describe_block_device(const std::filesystem::path& folder);

}  // namespace ferry
