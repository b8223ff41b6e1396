// Compiled if libcephfs's headers are installed: compares them with abi.hpp and library.hpp.
#include "storage/abi_check.hpp"

#include <cephfs/libcephfs.h>

#include "storage/ceph/library.hpp"

namespace ferry::storage {

template <>
struct abi::Translated<ceph::Client> {
  using Type = ceph_mount_info;
};
template <>
struct abi::Translated<ceph::Directory> {
  using Type = ceph_dir_result;
};
template <>
struct abi::Translated<ceph::Inode> {
  using Type = Inode;
};
template <>
struct abi::Translated<ceph::Statx> {
  using Type = struct ceph_statx;
};

struct SameStatx : abi::Pair<ceph::Statx, struct ceph_statx> {
  FERRY_SAME_MEMBER(mask, stx_mask);
  FERRY_SAME_MEMBER(block_bytes, stx_blksize);
  FERRY_SAME_MEMBER(links, stx_nlink);
  FERRY_SAME_MEMBER(owner, stx_uid);
  FERRY_SAME_MEMBER(group, stx_gid);
  FERRY_SAME_MEMBER(mode, stx_mode);
  FERRY_SAME_MEMBER(inode, stx_ino);
  FERRY_SAME_MEMBER(size_bytes, stx_size);
  FERRY_SAME_MEMBER(blocks, stx_blocks);
  FERRY_SAME_MEMBER(device, stx_dev);
  FERRY_SAME_MEMBER(special_device, stx_rdev);
  FERRY_SAME_MEMBER(accessed, stx_atime);
  FERRY_SAME_MEMBER(changed, stx_ctime);
  FERRY_SAME_MEMBER(modified, stx_mtime);
  FERRY_SAME_MEMBER(born, stx_btime);
  FERRY_SAME_MEMBER(version, stx_version);
};

static_assert(ceph::basic_members == CEPH_STATX_BASIC_STATS);
static_assert(ceph::version_member == CEPH_STATX_VERSION);
static_assert(ceph::set_mode == CEPH_SETATTR_MODE && ceph::set_owner == CEPH_SETATTR_UID &&
              ceph::set_group == CEPH_SETATTR_GID);
static_assert(ceph::set_modified == CEPH_SETATTR_MTIME && ceph::set_accessed == CEPH_SETATTR_ATIME);

FERRY_SAME_FUNCTIONS(CephLibrary, ceph_create, ceph_conf_read_file, ceph_conf_parse_env,
                     ceph_conf_set, ceph_conf_get, ceph_select_filesystem, ceph_mount, ceph_unmount,
                     ceph_release, ceph_umask, ceph_open, ceph_open_layout, ceph_close, ceph_read,
                     ceph_write, ceph_fsync, ceph_debug_get_fd_caps, ceph_lazyio_synchronize,
                     ceph_ftruncate, ceph_fstatx, ceph_statx, ceph_setattrx, ceph_unlink,
                     ceph_rename, ceph_link, ceph_symlink, ceph_readlink, ceph_mkdir, ceph_rmdir,
                     ceph_opendir, ceph_readdirplus_r, ceph_closedir, ceph_setxattr,
                     ceph_get_path_layout, ceph_get_file_layout, ceph_get_pool_name)

}  // namespace ferry::storage
