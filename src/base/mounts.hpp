// What is mounted where, and the block devices underneath.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <sys/types.h>

namespace ferry {

struct Mount {
  std::string point;
  std::string options;  // the mount's, then the file system's
  std::string type;
  std::string source;
  dev_t device =
      0;  // of its files (struct stat), but for btrfs, which gives each subvolume its own
};

// A line of /proc/self/mountinfo.
Mount parse_mount(const std::string& line);

// Whether a path is that of a mount point or leads through it. By the words alone.
bool lies_under(const std::string& path, const std::string& point);

// The value of an option that has one; else empty.
std::string option_of(const Mount& mount, const std::string& name);

// As this process sees them, earlier ones first. Where its root directory is no mount point, as
// after chroot(2), the kernel does not list what that lies on; it is added as one at "/".
std::vector<Mount> read_mounts();
// The list with a mount at "/", if it has none: of the device that "/" lies on, and as far as
// another mount of that device or the file system itself tells.
std::vector<Mount> with_root(std::vector<Mount> mounts);

// The mount that an existing path lies on. Throws std::system_error.
Mount mount_of(const std::string& path);

// The device's folder under /sys; empty where it is none of this machine's (network and memory file
// systems) or hidden. `source` is the mount's.
std::filesystem::path block_device_folder(dev_t device, const std::string& source);

// How large that device is; 0 where the kernel does not tell.
std::uint64_t block_device_bytes(const std::filesystem::path& folder);

}  // namespace ferry
