#include "storage/posix/file_systems.hpp"

#include <linux/magic.h>
#include <sys/vfs.h>

#include "base/forks.hpp"
#include "base/magic.hpp"

namespace ferry::storage {

bool is_remote(long type) {
  switch (type) {
    case NFS_SUPER_MAGIC:
    case AFS_SUPER_MAGIC:
    case AFS_FS_MAGIC:
    case AUTOFS_SUPER_MAGIC:  // a look-up may mount, and waits for whoever does
    case CODA_SUPER_MAGIC:
    case OCFS2_SUPER_MAGIC:
    case V9FS_MAGIC:
    case FUSE_SUPER_MAGIC:
    case beegfs_magic:
    case ceph_magic:
    case cifs_magic:
    case gfs2_magic:
    case gpfs_magic:
    case lustre_magic:
    case orangefs_magic:
    case smb2_magic:
      return true;
    default:
      return false;
  }
}

bool stamps_changes(long type) {
  return type == EXT4_SUPER_MAGIC || type == XFS_SUPER_MAGIC || type == BTRFS_SUPER_MAGIC;
}

bool generates_files(long type) {
  switch (type) {
    case PROC_SUPER_MAGIC:
    case SYSFS_MAGIC:
    case DEBUGFS_MAGIC:
    case TRACEFS_MAGIC:
    case SECURITYFS_MAGIC:
    case SELINUX_MAGIC:
    case SMACK_MAGIC:
    case CGROUP_SUPER_MAGIC:
    case CGROUP2_SUPER_MAGIC:
    case configfs_magic:
    case fusectl_magic:
    case pstore_magic:
    case resctrl_magic:
    case EFIVARFS_MAGIC:
    case BPF_FS_MAGIC:
    case BINFMTFS_MAGIC:
      return true;
    default:
      return false;
  }
}

long FileSystemTypes::of(int fd, std::uint64_t mount) {
  if (mount != 0) {
    const std::lock_guard lock(mutex_);
    if (const auto at = types_.find(mount); at != types_.end()) return at->second;
  }
  struct statfs file_system {};
  if (::fstatfs(fd, &file_system) != 0) return 0;
  const auto type = static_cast<long>(file_system.f_type);
  if (mount != 0) add(mount, type);
  return type;
}

void FileSystemTypes::add(std::uint64_t mount, long type) {
  const std::lock_guard lock(mutex_);
  if (types_.size() >= most) types_.clear();
  types_[mount] = type;
}

long FileSystemTypes::met(std::uint64_t mount) const {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (mount == 0 || !lock) return 0;
  const auto at = types_.find(mount);
  return at == types_.end() ? 0 : at->second;
}

FileSystemTypes& file_system_types() {
  return of_this_process<FileSystemTypes>();
}

}  // namespace ferry::storage
