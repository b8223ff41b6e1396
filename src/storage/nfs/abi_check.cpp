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

#define FERRY_STANDS_FOR(name)         \
  template <>                          \
  struct abi::Translated<nfs3::name> { \
    using Type = ::name;               \
  }

FERRY_STANDS_FOR(nfs_context);
FERRY_STANDS_FOR(rpc_context);
FERRY_STANDS_FOR(GETATTR3args);
FERRY_STANDS_FOR(SETATTR3args);
FERRY_STANDS_FOR(LOOKUP3args);
FERRY_STANDS_FOR(ACCESS3args);
FERRY_STANDS_FOR(READLINK3args);
FERRY_STANDS_FOR(READ3args);
FERRY_STANDS_FOR(WRITE3args);
FERRY_STANDS_FOR(CREATE3args);
FERRY_STANDS_FOR(REMOVE3args);
FERRY_STANDS_FOR(RENAME3args);
FERRY_STANDS_FOR(MKDIR3args);
FERRY_STANDS_FOR(RMDIR3args);
FERRY_STANDS_FOR(READDIRPLUS3args);
FERRY_STANDS_FOR(FSINFO3args);
FERRY_STANDS_FOR(COMMIT3args);

struct Same_nfs_fh3 : abi::Pair<nfs3::nfs_fh3, ::nfs_fh3> {
  FERRY_SAME_MEMBER(data, data);
};

struct Same_diropargs3 : abi::Pair<nfs3::diropargs3, ::diropargs3> {
  FERRY_SAME_MEMBER(dir, dir);
  FERRY_SAME_MEMBER(name, name);
};

struct Same_specdata3 : abi::Pair<nfs3::specdata3, ::specdata3> {
  FERRY_SAME_MEMBER(specdata1, specdata1);
  FERRY_SAME_MEMBER(specdata2, specdata2);
};

struct Same_nfstime3 : abi::Pair<nfs3::nfstime3, ::nfstime3> {
  FERRY_SAME_MEMBER(seconds, seconds);
  FERRY_SAME_MEMBER(nseconds, nseconds);
};

struct Same_fattr3 : abi::Pair<nfs3::fattr3, ::fattr3> {
  FERRY_SAME_MEMBER(type, type);
  FERRY_SAME_MEMBER(mode, mode);
  FERRY_SAME_MEMBER(nlink, nlink);
  FERRY_SAME_MEMBER(uid, uid);
  FERRY_SAME_MEMBER(gid, gid);
  FERRY_SAME_MEMBER(size, size);
  FERRY_SAME_MEMBER(used, used);
  FERRY_SAME_MEMBER(rdev, rdev);
  FERRY_SAME_MEMBER(fsid, fsid);
  FERRY_SAME_MEMBER(fileid, fileid);
  FERRY_SAME_MEMBER(atime, atime);
  FERRY_SAME_MEMBER(mtime, mtime);
  FERRY_SAME_MEMBER(ctime, ctime);
};

struct Same_post_op_attr : abi::Pair<nfs3::post_op_attr, ::post_op_attr> {
  FERRY_SAME_MEMBER(attributes_follow, attributes_follow);
  FERRY_SAME_MEMBER(post_op_attr_u, post_op_attr_u);
};

struct Same_wcc_attr : abi::Pair<nfs3::wcc_attr, ::wcc_attr> {
  FERRY_SAME_MEMBER(size, size);
  FERRY_SAME_MEMBER(mtime, mtime);
  FERRY_SAME_MEMBER(ctime, ctime);
};

struct Same_pre_op_attr : abi::Pair<nfs3::pre_op_attr, ::pre_op_attr> {
  FERRY_SAME_MEMBER(attributes_follow, attributes_follow);
  FERRY_SAME_MEMBER(pre_op_attr_u, pre_op_attr_u);
};

struct Same_wcc_data : abi::Pair<nfs3::wcc_data, ::wcc_data> {
  FERRY_SAME_MEMBER(before, before);
  FERRY_SAME_MEMBER(after, after);
};

struct Same_post_op_fh3 : abi::Pair<nfs3::post_op_fh3, ::post_op_fh3> {
  FERRY_SAME_MEMBER(handle_follows, handle_follows);
  FERRY_SAME_MEMBER(post_op_fh3_u, post_op_fh3_u);
};

struct Same_set_mode3 : abi::Pair<nfs3::set_mode3, ::set_mode3> {
  FERRY_SAME_MEMBER(set_it, set_it);
  FERRY_SAME_MEMBER(set_mode3_u, set_mode3_u);
};

struct Same_set_uid3 : abi::Pair<nfs3::set_uid3, ::set_uid3> {
  FERRY_SAME_MEMBER(set_it, set_it);
  FERRY_SAME_MEMBER(set_uid3_u, set_uid3_u);
};

struct Same_set_gid3 : abi::Pair<nfs3::set_gid3, ::set_gid3> {
  FERRY_SAME_MEMBER(set_it, set_it);
  FERRY_SAME_MEMBER(set_gid3_u, set_gid3_u);
};

struct Same_set_size3 : abi::Pair<nfs3::set_size3, ::set_size3> {
  FERRY_SAME_MEMBER(set_it, set_it);
  FERRY_SAME_MEMBER(set_size3_u, set_size3_u);
};

struct Same_set_atime : abi::Pair<nfs3::set_atime, ::set_atime> {
  FERRY_SAME_MEMBER(set_it, set_it);
  FERRY_SAME_MEMBER(set_atime_u, set_atime_u);
};

struct Same_set_mtime : abi::Pair<nfs3::set_mtime, ::set_mtime> {
  FERRY_SAME_MEMBER(set_it, set_it);
  FERRY_SAME_MEMBER(set_mtime_u, set_mtime_u);
};

struct Same_sattr3 : abi::Pair<nfs3::sattr3, ::sattr3> {
  FERRY_SAME_MEMBER(mode, mode);
  FERRY_SAME_MEMBER(uid, uid);
  FERRY_SAME_MEMBER(gid, gid);
  FERRY_SAME_MEMBER(size, size);
  FERRY_SAME_MEMBER(atime, atime);
  FERRY_SAME_MEMBER(mtime, mtime);
};

struct Same_createhow3 : abi::Pair<nfs3::createhow3, ::createhow3> {
  FERRY_SAME_MEMBER(mode, mode);
  FERRY_SAME_MEMBER(createhow3_u, createhow3_u);
};

struct Same_entryplus3 : abi::Pair<nfs3::entryplus3, ::entryplus3> {
  FERRY_SAME_MEMBER(fileid, fileid);
  FERRY_SAME_MEMBER(name, name);
  FERRY_SAME_MEMBER(cookie, cookie);
  FERRY_SAME_MEMBER(name_attributes, name_attributes);
  FERRY_SAME_MEMBER(name_handle, name_handle);
  FERRY_SAME_MEMBER(nextentry, nextentry);
};

struct Same_dirlistplus3 : abi::Pair<nfs3::dirlistplus3, ::dirlistplus3> {
  FERRY_SAME_MEMBER(entries, entries);
  FERRY_SAME_MEMBER(eof, eof);
};

struct Same_GETATTR3args : abi::Pair<nfs3::GETATTR3args, ::GETATTR3args> {
  FERRY_SAME_MEMBER(object, object);
};

struct Same_GETATTR3resok : abi::Pair<nfs3::GETATTR3resok, ::GETATTR3resok> {
  FERRY_SAME_MEMBER(obj_attributes, obj_attributes);
};

struct Same_GETATTR3res : abi::Pair<nfs3::GETATTR3res, ::GETATTR3res> {
  FERRY_SAME_MEMBER(status, status);
  FERRY_SAME_MEMBER(GETATTR3res_u, GETATTR3res_u);
};

struct Same_sattrguard3 : abi::Pair<nfs3::sattrguard3, ::sattrguard3> {
  FERRY_SAME_MEMBER(check, check);
  FERRY_SAME_MEMBER(sattrguard3_u, sattrguard3_u);
};

struct Same_SETATTR3args : abi::Pair<nfs3::SETATTR3args, ::SETATTR3args> {
  FERRY_SAME_MEMBER(object, object);
  FERRY_SAME_MEMBER(new_attributes, new_attributes);
  FERRY_SAME_MEMBER(guard, guard);
};

static_assert(offsetof(nfs3::SETATTR3res, status) == offsetof(::SETATTR3res, status));

struct Same_LOOKUP3args : abi::Pair<nfs3::LOOKUP3args, ::LOOKUP3args> {
  FERRY_SAME_MEMBER(what, what);
};

struct Same_LOOKUP3resok : abi::Pair<nfs3::LOOKUP3resok, ::LOOKUP3resok> {
  FERRY_SAME_MEMBER(object, object);
  FERRY_SAME_MEMBER(obj_attributes, obj_attributes);
  FERRY_SAME_MEMBER(dir_attributes, dir_attributes);
};

struct Same_LOOKUP3res : abi::Pair<nfs3::LOOKUP3res, ::LOOKUP3res> {
  FERRY_SAME_MEMBER(status, status);
  FERRY_SAME_MEMBER(LOOKUP3res_u, LOOKUP3res_u);
};

struct Same_ACCESS3args : abi::Pair<nfs3::ACCESS3args, ::ACCESS3args> {
  FERRY_SAME_MEMBER(object, object);
  FERRY_SAME_MEMBER(access, access);
};

struct Same_ACCESS3resok : abi::Pair<nfs3::ACCESS3resok, ::ACCESS3resok> {
  FERRY_SAME_MEMBER(obj_attributes, obj_attributes);
  FERRY_SAME_MEMBER(access, access);
};

struct Same_ACCESS3res : abi::Pair<nfs3::ACCESS3res, ::ACCESS3res> {
  FERRY_SAME_MEMBER(status, status);
  FERRY_SAME_MEMBER(ACCESS3res_u, ACCESS3res_u);
};

struct Same_READLINK3args : abi::Pair<nfs3::READLINK3args, ::READLINK3args> {
  FERRY_SAME_MEMBER(symlink, symlink);
};

struct Same_READLINK3resok : abi::Pair<nfs3::READLINK3resok, ::READLINK3resok> {
  FERRY_SAME_MEMBER(symlink_attributes, symlink_attributes);
  FERRY_SAME_MEMBER(data, data);
};

struct Same_READLINK3res : abi::Pair<nfs3::READLINK3res, ::READLINK3res> {
  FERRY_SAME_MEMBER(status, status);
  FERRY_SAME_MEMBER(READLINK3res_u, READLINK3res_u);
};

struct Same_READ3args : abi::Pair<nfs3::READ3args, ::READ3args> {
  FERRY_SAME_MEMBER(file, file);
  FERRY_SAME_MEMBER(offset, offset);
  FERRY_SAME_MEMBER(count, count);
};

struct Same_READ3resok : abi::Pair<nfs3::READ3resok, ::READ3resok> {
  FERRY_SAME_MEMBER(file_attributes, file_attributes);
  FERRY_SAME_MEMBER(count, count);
  FERRY_SAME_MEMBER(eof, eof);
  FERRY_SAME_MEMBER(data, data);
};

struct Same_READ3res : abi::Pair<nfs3::READ3res, ::READ3res> {
  FERRY_SAME_MEMBER(status, status);
  FERRY_SAME_MEMBER(READ3res_u, READ3res_u);
};

struct Same_WRITE3args : abi::Pair<nfs3::WRITE3args, ::WRITE3args> {
  FERRY_SAME_MEMBER(file, file);
  FERRY_SAME_MEMBER(offset, offset);
  FERRY_SAME_MEMBER(count, count);
  FERRY_SAME_MEMBER(stable, stable);
  FERRY_SAME_MEMBER(data, data);
};

struct Same_WRITE3resok : abi::Pair<nfs3::WRITE3resok, ::WRITE3resok> {
  FERRY_SAME_MEMBER(file_wcc, file_wcc);
  FERRY_SAME_MEMBER(count, count);
  FERRY_SAME_MEMBER(committed, committed);
  FERRY_SAME_MEMBER(verf, verf);
};

struct Same_WRITE3res : abi::Pair<nfs3::WRITE3res, ::WRITE3res> {
  FERRY_SAME_MEMBER(status, status);
  FERRY_SAME_MEMBER(WRITE3res_u, WRITE3res_u);
};

struct Same_COMMIT3args : abi::Pair<nfs3::COMMIT3args, ::COMMIT3args> {
  FERRY_SAME_MEMBER(file, file);
  FERRY_SAME_MEMBER(offset, offset);
  FERRY_SAME_MEMBER(count, count);
};

struct Same_COMMIT3resok : abi::Pair<nfs3::COMMIT3resok, ::COMMIT3resok> {
  FERRY_SAME_MEMBER(file_wcc, file_wcc);
  FERRY_SAME_MEMBER(verf, verf);
};

struct Same_COMMIT3res : abi::Pair<nfs3::COMMIT3res, ::COMMIT3res> {
  FERRY_SAME_MEMBER(status, status);
  FERRY_SAME_MEMBER(COMMIT3res_u, COMMIT3res_u);
};

struct Same_CREATE3args : abi::Pair<nfs3::CREATE3args, ::CREATE3args> {
  FERRY_SAME_MEMBER(where, where);
  FERRY_SAME_MEMBER(how, how);
};

struct Same_CREATE3resok : abi::Pair<nfs3::CREATE3resok, ::CREATE3resok> {
  FERRY_SAME_MEMBER(obj, obj);
  FERRY_SAME_MEMBER(obj_attributes, obj_attributes);
  FERRY_SAME_MEMBER(dir_wcc, dir_wcc);
};

struct Same_CREATE3res : abi::Pair<nfs3::CREATE3res, ::CREATE3res> {
  FERRY_SAME_MEMBER(status, status);
  FERRY_SAME_MEMBER(CREATE3res_u, CREATE3res_u);
};

struct Same_REMOVE3args : abi::Pair<nfs3::REMOVE3args, ::REMOVE3args> {
  FERRY_SAME_MEMBER(object, object);
};

static_assert(offsetof(nfs3::REMOVE3res, status) == offsetof(::REMOVE3res, status));

struct Same_RENAME3args : abi::Pair<nfs3::RENAME3args, ::RENAME3args> {
  FERRY_SAME_MEMBER(from, from);
  FERRY_SAME_MEMBER(to, to);
};

static_assert(offsetof(nfs3::RENAME3res, status) == offsetof(::RENAME3res, status));

struct Same_MKDIR3args : abi::Pair<nfs3::MKDIR3args, ::MKDIR3args> {
  FERRY_SAME_MEMBER(where, where);
  FERRY_SAME_MEMBER(attributes, attributes);
};

static_assert(offsetof(nfs3::MKDIR3res, status) == offsetof(::MKDIR3res, status));

struct Same_RMDIR3args : abi::Pair<nfs3::RMDIR3args, ::RMDIR3args> {
  FERRY_SAME_MEMBER(object, object);
};

static_assert(offsetof(nfs3::RMDIR3res, status) == offsetof(::RMDIR3res, status));

struct Same_READDIRPLUS3args : abi::Pair<nfs3::READDIRPLUS3args, ::READDIRPLUS3args> {
  FERRY_SAME_MEMBER(dir, dir);
  FERRY_SAME_MEMBER(cookie, cookie);
  FERRY_SAME_MEMBER(cookieverf, cookieverf);
  FERRY_SAME_MEMBER(dircount, dircount);
  FERRY_SAME_MEMBER(maxcount, maxcount);
};

struct Same_READDIRPLUS3resok : abi::Pair<nfs3::READDIRPLUS3resok, ::READDIRPLUS3resok> {
  FERRY_SAME_MEMBER(dir_attributes, dir_attributes);
  FERRY_SAME_MEMBER(cookieverf, cookieverf);
  FERRY_SAME_MEMBER(reply, reply);
};

struct Same_READDIRPLUS3res : abi::Pair<nfs3::READDIRPLUS3res, ::READDIRPLUS3res> {
  FERRY_SAME_MEMBER(status, status);
  FERRY_SAME_MEMBER(READDIRPLUS3res_u, READDIRPLUS3res_u);
};

struct Same_FSINFO3args : abi::Pair<nfs3::FSINFO3args, ::FSINFO3args> {
  FERRY_SAME_MEMBER(fsroot, fsroot);
};

struct Same_FSINFO3resok : abi::Pair<nfs3::FSINFO3resok, ::FSINFO3resok> {
  FERRY_SAME_MEMBER(obj_attributes, obj_attributes);
  FERRY_SAME_MEMBER(rtmax, rtmax);
  FERRY_SAME_MEMBER(rtpref, rtpref);
  FERRY_SAME_MEMBER(rtmult, rtmult);
  FERRY_SAME_MEMBER(wtmax, wtmax);
  FERRY_SAME_MEMBER(wtpref, wtpref);
  FERRY_SAME_MEMBER(wtmult, wtmult);
  FERRY_SAME_MEMBER(dtpref, dtpref);
  FERRY_SAME_MEMBER(maxfilesize, maxfilesize);
  FERRY_SAME_MEMBER(time_delta, time_delta);
  FERRY_SAME_MEMBER(properties, properties);
};

struct Same_FSINFO3res : abi::Pair<nfs3::FSINFO3res, ::FSINFO3res> {
  FERRY_SAME_MEMBER(status, status);
  FERRY_SAME_MEMBER(FSINFO3res_u, FSINFO3res_u);
};

struct Same_exportnode : abi::Pair<nfs3::exportnode, ::exportnode> {
  FERRY_SAME_MEMBER(ex_dir, ex_dir);
  FERRY_SAME_MEMBER(ex_groups, ex_groups);
  FERRY_SAME_MEMBER(ex_next, ex_next);
};

struct Same_fhandle3 : abi::Pair<nfs3::fhandle3, ::fhandle3> {
  FERRY_SAME_MEMBER(fhandle3_len, fhandle3_len);
  FERRY_SAME_MEMBER(fhandle3_val, fhandle3_val);
};

struct Same_mountres3_ok : abi::Pair<nfs3::mountres3_ok, ::mountres3_ok> {
  FERRY_SAME_MEMBER(fhandle, fhandle);
  FERRY_SAME_MEMBER(auth_flavors, auth_flavors);
};

struct Same_mountres3 : abi::Pair<nfs3::mountres3, ::mountres3> {
  FERRY_SAME_MEMBER(fhs_status, fhs_status);
  FERRY_SAME_MEMBER(mountres3_u, mountres3_u);
};

static_assert(offsetof(nfs3::Bytes, data_len) == offsetof(decltype(::nfs_fh3::data), data_len));
static_assert(offsetof(nfs3::Bytes, data_val) == offsetof(decltype(::nfs_fh3::data), data_val));

#define FERRY_SAME_VALUE(name) \
  static_assert(static_cast<int>(nfs3::name) == static_cast<int>(::name))
static_assert(sizeof(nfs3::nfsstat3) == sizeof(::nfsstat3));
FERRY_SAME_VALUE(NFS3_OK);
FERRY_SAME_VALUE(NFS3ERR_MLINK);
FERRY_SAME_VALUE(NFS3ERR_NAMETOOLONG);
FERRY_SAME_VALUE(NFS3ERR_NOTEMPTY);
FERRY_SAME_VALUE(NFS3ERR_DQUOT);
FERRY_SAME_VALUE(NFS3ERR_STALE);
FERRY_SAME_VALUE(NFS3ERR_REMOTE);
FERRY_SAME_VALUE(NFS3ERR_BADHANDLE);
FERRY_SAME_VALUE(NFS3ERR_NOTSUPP);
FERRY_SAME_VALUE(NFS3ERR_JUKEBOX);
static_assert(sizeof(nfs3::ftype3) == sizeof(::ftype3));
FERRY_SAME_VALUE(NF3REG);
FERRY_SAME_VALUE(NF3DIR);
FERRY_SAME_VALUE(NF3BLK);
FERRY_SAME_VALUE(NF3CHR);
FERRY_SAME_VALUE(NF3LNK);
FERRY_SAME_VALUE(NF3SOCK);
FERRY_SAME_VALUE(NF3FIFO);
static_assert(sizeof(nfs3::stable_how) == sizeof(::stable_how));
FERRY_SAME_VALUE(UNSTABLE);
FERRY_SAME_VALUE(DATA_SYNC);
FERRY_SAME_VALUE(FILE_SYNC);
static_assert(sizeof(nfs3::createmode3) == sizeof(::createmode3));
FERRY_SAME_VALUE(UNCHECKED);
FERRY_SAME_VALUE(GUARDED);
FERRY_SAME_VALUE(EXCLUSIVE);
static_assert(sizeof(nfs3::time_how) == sizeof(::time_how));
FERRY_SAME_VALUE(DONT_CHANGE);
FERRY_SAME_VALUE(SET_TO_SERVER_TIME);
FERRY_SAME_VALUE(SET_TO_CLIENT_TIME);
static_assert(sizeof(nfs3::mountstat3) == sizeof(::mountstat3));
FERRY_SAME_VALUE(MNT3_OK);

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

FERRY_SAME_FUNCTION(NfsLibrary, nfs_init_context);
FERRY_SAME_FUNCTION(NfsLibrary, nfs_destroy_context);
FERRY_SAME_FUNCTION(NfsLibrary, nfs_set_autoreconnect);
FERRY_SAME_FUNCTION(NfsLibrary, nfs_get_rpc_context);
FERRY_SAME_FUNCTION(NfsLibrary, rpc_set_uid);
FERRY_SAME_FUNCTION(NfsLibrary, rpc_set_gid);
FERRY_SAME_FUNCTION(NfsLibrary, rpc_get_fd);
FERRY_SAME_FUNCTION(NfsLibrary, rpc_which_events);
FERRY_SAME_FUNCTION(NfsLibrary, rpc_service);
FERRY_SAME_FUNCTION(NfsLibrary, rpc_connect_port_async);
FERRY_SAME_FUNCTION(NfsLibrary, rpc_connect_program_async);
FERRY_SAME_FUNCTION(NfsLibrary, rpc_mount3_export_async);
FERRY_SAME_FUNCTION(NfsLibrary, rpc_mount3_mnt_async);
FERRY_SAME_FUNCTION(NfsLibrary, mountstat3_to_errno);
FERRY_SAME_FUNCTION(NfsLibrary, rpc_nfs3_getattr_async);
FERRY_SAME_FUNCTION(NfsLibrary, rpc_nfs3_setattr_async);
FERRY_SAME_FUNCTION(NfsLibrary, rpc_nfs3_lookup_async);
FERRY_SAME_FUNCTION(NfsLibrary, rpc_nfs3_access_async);
FERRY_SAME_FUNCTION(NfsLibrary, rpc_nfs3_readlink_async);
FERRY_SAME_FUNCTION(NfsLibrary, rpc_nfs3_read_async);
FERRY_SAME_FUNCTION(NfsLibrary, rpc_nfs3_write_async);
FERRY_SAME_FUNCTION(NfsLibrary, rpc_nfs3_create_async);
FERRY_SAME_FUNCTION(NfsLibrary, rpc_nfs3_remove_async);
FERRY_SAME_FUNCTION(NfsLibrary, rpc_nfs3_rename_async);
FERRY_SAME_FUNCTION(NfsLibrary, rpc_nfs3_mkdir_async);
FERRY_SAME_FUNCTION(NfsLibrary, rpc_nfs3_rmdir_async);
FERRY_SAME_FUNCTION(NfsLibrary, rpc_nfs3_readdirplus_async);
FERRY_SAME_FUNCTION(NfsLibrary, rpc_nfs3_fsinfo_async);
FERRY_SAME_FUNCTION(NfsLibrary, rpc_nfs3_commit_async);

}  // namespace ferry::storage

// NOLINTEND(readability-identifier-naming)
