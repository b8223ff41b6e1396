#include "base/block_device.hpp"

#include <algorithm>
#include <fstream>
#include <system_error>

namespace ferry {
namespace {

namespace fs = std::filesystem;

std::string line_of(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// An NVMe disk's parent is a controller, whose parent has the driver.
std::string driver_of(const fs::path& disk) {
  std::error_code error;
  for (const char* way : {"device/driver", "device/device/driver"}) {
    const fs::path driver = fs::canonical(disk / way, error);
    if (!error) return driver.filename().string();
  }
  return "";
}

}  // namespace

BlockDevice describe_block_device(const fs::path& folder) {
  std::error_code error;
  const bool is_partition = fs::exists(folder / "partition", error);
  const fs::path disk = is_partition ? folder.parent_path() : folder;
  BlockDevice device;
  device.name = folder.filename().string();
  device.disk = disk.filename().string();
  device.driver = driver_of(disk);
  if (fs::exists(disk / "md", error)) {
    device.kind = "RAID";
    device.detail = line_of(disk / "md/level");
  } else if (fs::exists(disk / "dm", error)) {
    device.kind = "device mapper";
    device.detail = line_of(disk / "dm/name");
  } else if (device.disk.starts_with("loop")) {
    device.kind = "loop";
    device.detail = line_of(disk / "loop/backing_file");
  } else if (device.disk.starts_with("nvme")) {
    device.kind = "NVMe";
  } else if (device.driver.starts_with("virtio")) {
    device.kind = "virtio";
  } else if (device.disk.starts_with("sd") || device.disk.starts_with("sr")) {
    device.kind = "SCSI";
  } else if (device.disk.starts_with("zram")) {
    device.kind = "zram";
  }
  for (const fs::directory_entry& entry : fs::directory_iterator(disk / "slaves", error))
    device.below.push_back(entry.path().filename().string());
  std::sort(device.below.begin(), device.below.end());
  return device;
}

}  // namespace ferry
