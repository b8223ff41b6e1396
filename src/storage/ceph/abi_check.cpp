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

FERRY_SAME_FUNCTION(CephLibrary, ceph_create);
FERRY_SAME_FUNCTION(CephLibrary, ceph_conf_read_file);
FERRY_SAME_FUNCTION(CephLibrary, ceph_conf_parse_env);
FERRY_SAME_FUNCTION(CephLibrary, ceph_conf_set);
FERRY_SAME_FUNCTION(CephLibrary, ceph_conf_get);
FERRY_SAME_FUNCTION(CephLibrary, ceph_select_filesystem);
FERRY_SAME_FUNCTION(CephLibrary, ceph_mount);
FERRY_SAME_FUNCTION(CephLibrary, ceph_unmount);
FERRY_SAME_FUNCTION(CephLibrary, ceph_release);
FERRY_SAME_FUNCTION(CephLibrary, ceph_umask);
FERRY_SAME_FUNCTION(CephLibrary, ceph_open);
FERRY_SAME_FUNCTION(CephLibrary, ceph_open_layout);
FERRY_SAME_FUNCTION(CephLibrary, ceph_close);
FERRY_SAME_FUNCTION(CephLibrary, ceph_read);
FERRY_SAME_FUNCTION(CephLibrary, ceph_write);
FERRY_SAME_FUNCTION(CephLibrary, ceph_fsync);
FERRY_SAME_FUNCTION(CephLibrary, ceph_lazyio_synchronize);
FERRY_SAME_FUNCTION(CephLibrary, ceph_ftruncate);
FERRY_SAME_FUNCTION(CephLibrary, ceph_fstatx);
FERRY_SAME_FUNCTION(CephLibrary, ceph_statx);
FERRY_SAME_FUNCTION(CephLibrary, ceph_unlink);
FERRY_SAME_FUNCTION(CephLibrary, ceph_rename);
FERRY_SAME_FUNCTION(CephLibrary, ceph_mkdir);
FERRY_SAME_FUNCTION(CephLibrary, ceph_rmdir);
FERRY_SAME_FUNCTION(CephLibrary, ceph_opendir);
FERRY_SAME_FUNCTION(CephLibrary, ceph_readdirplus_r);
FERRY_SAME_FUNCTION(CephLibrary, ceph_closedir);
FERRY_SAME_FUNCTION(CephLibrary, ceph_setxattr);
FERRY_SAME_FUNCTION(CephLibrary, ceph_get_path_layout);
FERRY_SAME_FUNCTION(CephLibrary, ceph_get_file_layout);
FERRY_SAME_FUNCTION(CephLibrary, ceph_get_pool_name);

}  // namespace ferry::storage
