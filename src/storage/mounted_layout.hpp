// Layouts of files on mounted file systems that stripe them.
#pragma once

#include <cstdint>
#include <string>

#include "storage/layout.hpp"

namespace ferry::storage {

enum class StripedSystem : std::uint8_t { none, ceph, lustre };

// A kind of file system: its number in statfs(2), and its name in the list of mounts.
StripedSystem striped_system_of(std::uint64_t kind, const std::string& mount_type);
// For the file system of `path`, or of its nearest existing parent.
StripedSystem striped_system(const std::string& path);

// CephFS has layouts as extended attributes; for Lustre see lustre/layouts.hpp. All return 0 or a
// negative errno, -EOPNOTSUPP for unstriped or unknown file systems. For a directory: the layout of
// new files.
int mounted_layout(const std::string& path, Layout& layout);
int set_mounted_layout(const std::string& directory, const Layout& layout);
// Makes the empty file `path` with O_EXCL.
int make_with_layout(const std::string& path, std::uint32_t mode, const Layout& layout);

// On Lustre: empty, or why liblustreapi is not used for all this.
std::string without_lustre_library();

}  // namespace ferry::storage
