// Compiled if libnfs's headers are installed: compares them with abi.hpp and library.hpp.
#include "storage/abi_check.hpp"

#include "storage/nfs/library.hpp"

// libnfs.h defines what the others need.
// clang-format off
extern "C" {
#include <nfsc/libnfs.h>
#include <nfsc/libnfs-raw.h>
#include <nfsc/libnfs-raw-mount.h>
#include <nfsc/libnfs-raw-nfs.h>
}
// clang-format on

// NOLINTBEGIN(readability-identifier-naming): the names of RFC 1813

namespace ferry::storage {

template <>
struct abi::Translated<nfs3::nfs_context> {
  using Type = ::nfs_context;
};
template <>
struct abi::Translated<nfs3::rpc_context> {
  using Type = ::rpc_context;
};

// FERRY_STRUCT(name) { comparisons of members };
#define FERRY_STRUCT(name)             \
  template <>                          \
  struct abi::Translated<nfs3::name> { \
    using Type = ::name;               \
  };                                   \
  struct Same_##name : abi::Pair<nfs3::name, ::name>
#define FERRY_SAME_NAMED(unused, member) FERRY_SAME_MEMBER(member, member);
#define FERRY_SAME_STRUCT(name, ...)                    \
  FERRY_STRUCT(name) {                                  \
    FERRY_FOR_EACH(FERRY_SAME_NAMED, name, __VA_ARGS__) \
  }
#define FERRY_SAME_SETTING(unused, member)                                        \
  struct Same_set_##member                                                        \
      : abi::Pair<decltype(nfs3::sattr3::member), decltype(::sattr3::member)> {   \
    FERRY_SAME_MEMBER(set_it, set_it);                                            \
    static_assert(sizeof(Ours::value) == sizeof(Theirs) - offsetof(Ours, value)); \
  };
#define FERRY_SAME_REPLY(unused, name)                                \
  struct Same_##name##res : abi::Pair<nfs3::name##res, ::name##res> { \
    FERRY_SAME_MEMBER(status, status);                                \
    FERRY_SAME_MEMBER(resok, name##res_u);                            \
  };
#define FERRY_SAME_REFUSABLE(unused, name) \
  static_assert(offsetof(nfs3::Refusable, status) == offsetof(::name##res, status));
#define FERRY_SAME_SIZE(unused, name) static_assert(sizeof(nfs3::name) == sizeof(::name));
#define FERRY_SAME_VALUE(unused, name) \
  static_assert(static_cast<int>(nfs3::name) == static_cast<int>(::name));

FERRY_SAME_STRUCT(nfs_fh3, data);
FERRY_SAME_STRUCT(diropargs3, dir, name);
FERRY_SAME_STRUCT(specdata3, specdata1, specdata2);
FERRY_SAME_STRUCT(nfstime3, seconds, nseconds);
FERRY_SAME_STRUCT(fattr3, type, mode, nlink, uid, gid, size, used, rdev, fsid, fileid, atime, mtime,
                  ctime);
FERRY_STRUCT(post_op_attr) {
  FERRY_SAME_MEMBER(attributes_follow, attributes_follow);
  FERRY_SAME_MEMBER(attributes, post_op_attr_u);
};
FERRY_SAME_STRUCT(wcc_attr, size, mtime, ctime);
FERRY_STRUCT(pre_op_attr) {
  FERRY_SAME_MEMBER(attributes_follow, attributes_follow);
  FERRY_SAME_MEMBER(attributes, pre_op_attr_u);
};
FERRY_SAME_STRUCT(wcc_data, before, after);
FERRY_STRUCT(post_op_fh3) {
  FERRY_SAME_MEMBER(handle_follows, handle_follows);
  FERRY_SAME_MEMBER(handle, post_op_fh3_u);
};
FERRY_FOR_EACH(FERRY_SAME_SETTING, unused, mode, uid, gid, size, atime, mtime)
FERRY_SAME_STRUCT(sattr3, mode, uid, gid, size, atime, mtime);
FERRY_SAME_STRUCT(createhow3, mode, createhow3_u);
FERRY_SAME_STRUCT(entryplus3, fileid, name, cookie, name_attributes, name_handle, nextentry);
FERRY_SAME_STRUCT(dirlistplus3, entries, eof);
FERRY_SAME_STRUCT(GETATTR3args, object);
FERRY_SAME_STRUCT(GETATTR3resok, obj_attributes);
FERRY_STRUCT(sattrguard3) {
  FERRY_SAME_MEMBER(check, check);
  FERRY_SAME_MEMBER(obj_ctime, sattrguard3_u);
};
FERRY_SAME_STRUCT(SETATTR3args, object, new_attributes, guard);
FERRY_SAME_STRUCT(LOOKUP3args, what);
FERRY_SAME_STRUCT(LOOKUP3resok, object, obj_attributes, dir_attributes);
FERRY_SAME_STRUCT(ACCESS3args, object, access);
FERRY_SAME_STRUCT(ACCESS3resok, obj_attributes, access);
FERRY_SAME_STRUCT(READLINK3args, symlink);
FERRY_SAME_STRUCT(READLINK3resok, symlink_attributes, data);
FERRY_SAME_STRUCT(READ3args, file, offset, count);
FERRY_SAME_STRUCT(READ3resok, file_attributes, count, eof, data);
FERRY_SAME_STRUCT(WRITE3args, file, offset, count, stable, data);
FERRY_SAME_STRUCT(WRITE3resok, file_wcc, count, committed, verf);
FERRY_SAME_STRUCT(COMMIT3args, file, offset, count);
FERRY_SAME_STRUCT(COMMIT3resok, file_wcc, verf);
FERRY_SAME_STRUCT(CREATE3args, where, how);
FERRY_SAME_STRUCT(CREATE3resok, obj, obj_attributes, dir_wcc);
FERRY_SAME_STRUCT(REMOVE3args, object);
FERRY_SAME_STRUCT(RENAME3args, from, to);
FERRY_SAME_STRUCT(LINK3args, file, link);
FERRY_SAME_STRUCT(symlinkdata3, symlink_attributes, symlink_data);
FERRY_SAME_STRUCT(SYMLINK3args, where, symlink);
FERRY_SAME_STRUCT(MKDIR3args, where, attributes);
FERRY_SAME_STRUCT(RMDIR3args, object);
FERRY_SAME_STRUCT(READDIRPLUS3args, dir, cookie, cookieverf, dircount, maxcount);
FERRY_SAME_STRUCT(READDIRPLUS3resok, dir_attributes, cookieverf, reply);
FERRY_SAME_STRUCT(FSINFO3args, fsroot);
FERRY_SAME_STRUCT(FSINFO3resok, obj_attributes, rtmax, rtpref, rtmult, wtmax, wtpref, wtmult,
                  dtpref, maxfilesize, time_delta, properties);
FERRY_SAME_STRUCT(exportnode, ex_dir, ex_groups, ex_next);
FERRY_SAME_STRUCT(fhandle3, fhandle3_len, fhandle3_val);
FERRY_SAME_STRUCT(mountres3_ok, fhandle, auth_flavors);
FERRY_STRUCT(mountres3) {
  FERRY_SAME_MEMBER(fhs_status, fhs_status);
  FERRY_SAME_MEMBER(mountinfo, mountres3_u);
};
FERRY_FOR_EACH(FERRY_SAME_REPLY, unused, GETATTR3, LOOKUP3, ACCESS3, READLINK3, READ3, WRITE3,
               COMMIT3, CREATE3, READDIRPLUS3, FSINFO3)
FERRY_FOR_EACH(FERRY_SAME_REFUSABLE, unused, SETATTR3, REMOVE3, RENAME3, LINK3, SYMLINK3, MKDIR3,
               RMDIR3)

static_assert(offsetof(nfs3::Bytes, data_len) == offsetof(decltype(::nfs_fh3::data), data_len));
static_assert(offsetof(nfs3::Bytes, data_val) == offsetof(decltype(::nfs_fh3::data), data_val));

FERRY_FOR_EACH(FERRY_SAME_SIZE, unused, nfsstat3, ftype3, stable_how, createmode3, time_how,
               mountstat3)
FERRY_FOR_EACH(FERRY_SAME_VALUE, unused, NFS3_OK, NFS3ERR_MLINK, NFS3ERR_NAMETOOLONG,
               NFS3ERR_NOTEMPTY, NFS3ERR_DQUOT, NFS3ERR_STALE, NFS3ERR_REMOTE, NFS3ERR_BADHANDLE,
               NFS3ERR_NOTSUPP, NFS3ERR_JUKEBOX, NF3REG, NF3DIR, NF3BLK, NF3CHR, NF3LNK, NF3SOCK,
               NF3FIFO, UNSTABLE, DATA_SYNC, FILE_SYNC, UNCHECKED, GUARDED, EXCLUSIVE, DONT_CHANGE,
               SET_TO_SERVER_TIME, SET_TO_CLIENT_TIME, MNT3_OK)

static_assert(rpc_success == RPC_STATUS_SUCCESS);
static_assert(nfs_program == NFS_PROGRAM);
static_assert(nfs_version == NFS_V3);
static_assert(mount_program == MOUNT_PROGRAM);
static_assert(mount_version == MOUNT_V3);
static_assert(handle_bytes_max == NFS3_FHSIZE);
static_assert(write_verifier_bytes == NFS3_WRITEVERFSIZE);
static_assert(create_verifier_bytes == NFS3_CREATEVERFSIZE);
static_assert(cookie_verifier_bytes == NFS3_COOKIEVERFSIZE);
static_assert(access_read == ACCESS3_READ);
static_assert(access_modify == ACCESS3_MODIFY);

FERRY_SAME_FUNCTIONS(NfsLibrary, nfs_init_context, nfs_destroy_context, nfs_set_autoreconnect,
                     nfs_get_rpc_context, rpc_set_uid, rpc_set_gid, rpc_get_fd, rpc_which_events,
                     rpc_service, rpc_connect_port_async, rpc_connect_program_async,
                     rpc_mount3_export_async, rpc_mount3_mnt_async, mountstat3_to_errno,
                     rpc_nfs3_getattr_async, rpc_nfs3_setattr_async, rpc_nfs3_lookup_async,
                     rpc_nfs3_access_async, rpc_nfs3_readlink_async, rpc_nfs3_read_async,
                     rpc_nfs3_write_async, rpc_nfs3_create_async, rpc_nfs3_remove_async,
                     rpc_nfs3_rename_async, rpc_nfs3_link_async, rpc_nfs3_symlink_async,
                     rpc_nfs3_mkdir_async, rpc_nfs3_rmdir_async, rpc_nfs3_readdirplus_async,
                     rpc_nfs3_fsinfo_async, rpc_nfs3_commit_async)

}  // namespace ferry::storage

// NOLINTEND(readability-identifier-naming)
