// Compiled if OrangeFS's headers are installed: compares them with abi.hpp.
extern "C" {
#include <pvfs2.h>
}

#include "storage/abi_check.hpp"
#include "storage/pvfs2/abi.hpp"

namespace ferry::storage::pvfs2 {

using abi::Pair;

struct SameReference : Pair<Reference, PVFS_object_ref> {
  FERRY_SAME_MEMBER(handle, handle);
  FERRY_SAME_MEMBER(file_system, fs_id);
};

struct SameCredential : Pair<Credential, PVFS_credential> {
  FERRY_SAME_MEMBER(user, userid);
  FERRY_SAME_MEMBER(group_count, num_groups);
  FERRY_SAME_MEMBER(groups, group_array);
  FERRY_SAME_MEMBER(issuer, issuer);
  FERRY_SAME_MEMBER(timeout_s, timeout);
  FERRY_SAME_MEMBER(signature_bytes, sig_size);
  FERRY_SAME_MEMBER(signature, signature);
  FERRY_SAME_MEMBER(certificate_bytes, certificate.buf_size);
  FERRY_SAME_MEMBER(certificate, certificate.buf);
};

struct SameAttributes : Pair<Attributes, PVFS_sys_attr> {
  FERRY_SAME_MEMBER(owner, owner);
  FERRY_SAME_MEMBER(group, group);
  FERRY_SAME_MEMBER(permissions, perms);
  FERRY_SAME_MEMBER(accessed_s, atime);
  FERRY_SAME_MEMBER(modified_s, mtime);
  FERRY_SAME_MEMBER(changed_s, ctime);
  FERRY_SAME_MEMBER(size_bytes, size);
  FERRY_SAME_MEMBER(link_target, link_target);
  FERRY_SAME_MEMBER(data_files, dfile_count);
  FERRY_SAME_MEMBER(distribution, dist_name);
  FERRY_SAME_MEMBER(distribution_settings, dist_params);
  FERRY_SAME_MEMBER(type, objtype);
  FERRY_SAME_MEMBER(flags, flags);
  FERRY_SAME_MEMBER(mask, mask);
  FERRY_SAME_MEMBER(block_bytes, blksize);
};

struct SameMount : Pair<Pvfs2Mount, PVFS_sys_mntent> {
  FERRY_SAME_MEMBER(name, pvfs_fs_name);
  FERRY_SAME_MEMBER(file_system, fs_id);
  FERRY_SAME_MEMBER(folder, mnt_dir);
  FERRY_SAME_MEMBER(options, mnt_opts);
  FERRY_SAME_MEMBER(servers, pvfs_config_servers);
  FERRY_SAME_MEMBER(server_count, num_pvfs_config_servers);
  FERRY_SAME_MEMBER(working_server, the_pvfs_config_server);
};

struct SameTable : Pair<Table, PVFS_util_tab> {
  FERRY_SAME_MEMBER(count, mntent_count);
  FERRY_SAME_MEMBER(mounts, mntent_array);
  FERRY_SAME_MEMBER(file_name, tabfile_name);
};

struct SameLookedUp : Pair<LookedUp, PVFS_sysresp_lookup> {
  FERRY_SAME_MEMBER(reference, ref);
  FERRY_SAME_MEMBER(error_path, error_path);
};

struct SameName : Pair<Name, PVFS_dirent> {
  FERRY_SAME_MEMBER(text, d_name);
  FERRY_SAME_MEMBER(handle, handle);
};

struct SameListed : Pair<Listed, PVFS_sysresp_readdir> {
  FERRY_SAME_MEMBER(position, token);
  FERRY_SAME_MEMBER(names, dirent_array);
  FERRY_SAME_MEMBER(count, pvfs_dirent_outcount);
};

struct SameDistribution : Pair<Distribution, PVFS_sys_dist> {
  FERRY_SAME_MEMBER(name, name);
};

struct SameValue : Pair<Value, PVFS_ds_keyval> {
  FERRY_SAME_MEMBER(bytes, buffer);
  FERRY_SAME_MEMBER(room, buffer_sz);
  FERRY_SAME_MEMBER(size, read_sz);
};

static_assert(sizeof(Attributes) == sizeof(PVFS_sysresp_getattr));
static_assert(sizeof(Reference) == sizeof(PVFS_sysresp_create));
static_assert(sizeof(Reference) == sizeof(PVFS_sysresp_mkdir));
static_assert(sizeof(std::int64_t) == sizeof(PVFS_sysresp_io));

static_assert(type_file == PVFS_TYPE_METAFILE);
static_assert(type_directory == PVFS_TYPE_DIRECTORY);
static_assert(type_link == PVFS_TYPE_SYMLINK);
static_assert(io_read == PVFS_IO_READ && io_write == PVFS_IO_WRITE);
static_assert(follow_last_link == PVFS2_LOOKUP_LINK_FOLLOW);
static_assert(list_start == PVFS_READDIR_START && list_end == PVFS_READDIR_END);
static_assert(attribute_cache_timeout == PVFS_SYS_ACACHE_TIMEOUT_MSECS);
static_assert(name_cache_timeout == PVFS_SYS_NCACHE_TIMEOUT_MSECS);
static_assert(mask_owner == PVFS_ATTR_SYS_UID && mask_group == PVFS_ATTR_SYS_GID);
static_assert(mask_permissions == PVFS_ATTR_SYS_PERM && mask_type == PVFS_ATTR_SYS_TYPE);
static_assert(mask_times == (PVFS_ATTR_SYS_ATIME | PVFS_ATTR_SYS_CTIME | PVFS_ATTR_SYS_MTIME));
static_assert(mask_size == PVFS_ATTR_SYS_SIZE && mask_data_files == PVFS_ATTR_SYS_DFILE_COUNT);
static_assert(mask_block_bytes == PVFS_ATTR_SYS_BLKSIZE);
static_assert(mask_link_target == PVFS_ATTR_SYS_LNK_TARGET);
static_assert(mask_all == PVFS_ATTR_SYS_ALL);
static_assert(sizeof(Room) == sizeof(PVFS_sysresp_statfs));
static_assert(offsetof(Room, bytes_available) ==
              offsetof(PVFS_sysresp_statfs, statfs_buf.bytes_available));
static_assert(offsetof(Room, servers) == offsetof(PVFS_sysresp_statfs, server_count));
static_assert(sizeof(PVFS_permissions) == sizeof(std::uint32_t));

}  // namespace ferry::storage::pvfs2
