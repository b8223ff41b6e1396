// Layouts of files on mounted file systems that stripe them.
#pragma once

#include <cstdint>
#include <string>

#include "storage/layout.hpp"

namespace ferry::storage {

enum class StripedSystem : std::uint8_t { none, ceph, lustre };

// Of a mounted file system: the number that statfs(2) tells of its kind, and its name in the list
// of mounts.
StripedSystem striped_system_of(std::uint64_t kind, const std::string& mount_type);
// By the file system of `path`, or of the nearest directory above it that is there.
StripedSystem striped_system(const std::string& path);

// CephFS has layouts as extended attributes; for Lustre see lustre_layouts.hpp. All return 0 or a
// negative errno, -EOPNOTSUPP where nothing is striped, or not in a way that Ferry knows. Of a
// directory: what is made in it gets.
int mounted_layout(const std::string& path, Layout& layout);
int set_mounted_layout(const std::string& directory, const Layout& layout);
// Makes the empty file `path` with O_EXCL.
int make_with_layout(const std::string& path, std::uint32_t mode, const Layout& layout);

// On Lustre: empty, or why liblustreapi is not used for all this.
std::string without_lustre_library();

}  // namespace ferry::storage
