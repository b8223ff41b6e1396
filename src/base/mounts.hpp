// Mounted file systems and the block devices below them.
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
  dev_t device = 0;  // device number of its files (struct stat), except on btrfs, where each
                     // subvolume has its own
};

// A line of /proc/self/mountinfo.
Mount parse_mount(const std::string& line);

// Whether a path equals a mount point or is below it, comparing text only.
bool lies_under(const std::string& path, const std::string& point);

// The value of an option; empty if it has none.
std::string option_of(const Mount& mount, const std::string& name);

// As seen by this process, earlier ones first. If its root directory is no mount point, as after
// chroot(2), the kernel does not list the root's file system; it is added as a mount at "/".
std::vector<Mount> read_mounts();
// Adds a mount at "/" if there is none: from the device of "/", with what another mount of that
// device or the file system reveals.
std::vector<Mount> with_root(std::vector<Mount> mounts);

// For a process in a mount namespace of its own: what it mounts from now on reaches no other one,
// while what is mounted elsewhere still arrives. Where its root directory is no mount point,
// nothing can be said of the mounts below; then that directory is bound over /proc and becomes the
// root. Throws std::system_error.
void keep_mounts_inside();

// The mount of an existing path. Throws std::system_error.
Mount mount_of(const std::string& path);

// The device's folder under /sys; empty if it is hidden or not on this machine (network and memory
// file systems). `source` is the mount's.
std::filesystem::path block_device_folder(dev_t device, const std::string& source);

// The device's size; 0 if unknown.
std::uint64_t block_device_bytes(const std::filesystem::path& folder);

}  // namespace ferry
