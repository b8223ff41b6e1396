// The parts of the binary interface of libnfs 4 and 5 (64-bit) that Ferry uses: the messages of NFS
// version 3 and of its mount protocol as structs. If libnfs's headers are installed, the build
// compares them (nfs/abi_check.cpp). Names are those of RFC 1813. A union of which only one member
// is used stands here as that member.
#pragma once

#include <cstdint>

namespace ferry::storage {
inline namespace nfs3 {

// NOLINTBEGIN(readability-identifier-naming): the names of RFC 1813 and of libnfs

// Of libnfs itself.
struct nfs_context;
struct rpc_context;
// The status of the call, its reply, and what was given along.
using rpc_cb = void (*)(rpc_context*, int, void*, void*);
inline constexpr int rpc_success = 0;  // RPC_STATUS_SUCCESS

inline constexpr int nfs_program = 100003;                 // NFS_PROGRAM
inline constexpr int nfs_version = 3;                      // NFS_V3
inline constexpr int mount_program = 100005;               // MOUNT_PROGRAM
inline constexpr int mount_version = 3;                    // MOUNT_V3
inline constexpr std::uint32_t handle_bytes_max = 64;      // NFS3_FHSIZE
inline constexpr std::uint32_t write_verifier_bytes = 8;   // NFS3_WRITEVERFSIZE
inline constexpr std::uint32_t create_verifier_bytes = 8;  // NFS3_CREATEVERFSIZE
inline constexpr std::uint32_t cookie_verifier_bytes = 8;  // NFS3_COOKIEVERFSIZE
inline constexpr unsigned access_read = 1;                 // ACCESS3_READ
inline constexpr unsigned access_modify = 4;               // ACCESS3_MODIFY

enum nfsstat3 : unsigned {
  NFS3_OK = 0,
  NFS3ERR_MLINK = 31,
  NFS3ERR_NAMETOOLONG = 63,
  NFS3ERR_NOTEMPTY = 66,
  NFS3ERR_DQUOT = 69,
  NFS3ERR_STALE = 70,
  NFS3ERR_REMOTE = 71,
  NFS3ERR_BADHANDLE = 10001,
  NFS3ERR_NOTSUPP = 10004,
  NFS3ERR_JUKEBOX = 10008,
};

enum ftype3 : unsigned {
  NF3REG = 1,
  NF3DIR = 2,
  NF3BLK = 3,
  NF3CHR = 4,
  NF3LNK = 5,
  NF3SOCK = 6,
  NF3FIFO = 7,
};

enum stable_how : unsigned { UNSTABLE = 0, DATA_SYNC = 1, FILE_SYNC = 2 };
enum createmode3 : unsigned { UNCHECKED = 0, GUARDED = 1, EXCLUSIVE = 2 };
enum time_how : unsigned { DONT_CHANGE = 0, SET_TO_SERVER_TIME = 1, SET_TO_CLIENT_TIME = 2 };
enum mountstat3 : unsigned { MNT3_OK = 0 };

using count3 = std::uint32_t;

// ---- parts of messages -------------------------------------------------------------------------

struct Bytes {
  std::uint32_t data_len;
  char* data_val;
};

struct nfs_fh3 {
  Bytes data;
};

struct diropargs3 {
  nfs_fh3 dir;
  char* name;
};

struct specdata3 {
  std::uint32_t specdata1;
  std::uint32_t specdata2;
};

struct nfstime3 {
  std::uint32_t seconds;
  std::uint32_t nseconds;
};

struct fattr3 {
  ftype3 type;
  std::uint32_t mode;
  std::uint32_t nlink;
  std::uint32_t uid;
  std::uint32_t gid;
  std::uint64_t size;
  std::uint64_t used;
  specdata3 rdev;
  std::uint64_t fsid;
  std::uint64_t fileid;
  nfstime3 atime;
  nfstime3 mtime;
  nfstime3 ctime;
};

struct post_op_attr {
  std::uint32_t attributes_follow;
  fattr3 attributes;
};

struct wcc_attr {
  std::uint64_t size;
  nfstime3 mtime;
  nfstime3 ctime;
};

struct pre_op_attr {
  std::uint32_t attributes_follow;
  wcc_attr attributes;
};

struct wcc_data {
  pre_op_attr before;
  post_op_attr after;
};

struct post_op_fh3 {
  std::uint32_t handle_follows;
  nfs_fh3 handle;
};

template <class Value, class How = std::uint32_t>
struct Setting {
  How set_it;
  Value value;
};

struct sattr3 {
  Setting<std::uint32_t> mode;
  Setting<std::uint32_t> uid;
  Setting<std::uint32_t> gid;
  Setting<std::uint64_t> size;
  Setting<nfstime3, time_how> atime;
  Setting<nfstime3, time_how> mtime;
};

struct createhow3 {
  createmode3 mode;
  union {
    sattr3 obj_attributes;
    char verf[create_verifier_bytes];
  } createhow3_u;
};

struct entryplus3 {
  std::uint64_t fileid;
  char* name;
  std::uint64_t cookie;
  post_op_attr name_attributes;
  post_op_fh3 name_handle;
  entryplus3* nextentry;
};

struct dirlistplus3 {
  entryplus3* entries;
  std::uint32_t eof;
};

// ---- messages ----------------------------------------------------------------------------------
// Replies only contain what a successful call returns.

template <class Returned>
struct Reply {
  nfsstat3 status;
  Returned resok;
};
struct Refusable {
  nfsstat3 status;
};

struct GETATTR3args {
  nfs_fh3 object;
};
struct GETATTR3resok {
  fattr3 obj_attributes;
};
using GETATTR3res = Reply<GETATTR3resok>;

struct sattrguard3 {
  std::uint32_t check;
  nfstime3 obj_ctime;
};
struct SETATTR3args {
  nfs_fh3 object;
  sattr3 new_attributes;
  sattrguard3 guard;
};
using SETATTR3res = Refusable;

struct LOOKUP3args {
  diropargs3 what;
};
struct LOOKUP3resok {
  nfs_fh3 object;
  post_op_attr obj_attributes;
  post_op_attr dir_attributes;
};
using LOOKUP3res = Reply<LOOKUP3resok>;

struct ACCESS3args {
  nfs_fh3 object;
  std::uint32_t access;
};
struct ACCESS3resok {
  post_op_attr obj_attributes;
  std::uint32_t access;
};
using ACCESS3res = Reply<ACCESS3resok>;

struct READLINK3args {
  nfs_fh3 symlink;
};
struct READLINK3resok {
  post_op_attr symlink_attributes;
  char* data;
};
using READLINK3res = Reply<READLINK3resok>;

struct READ3args {
  nfs_fh3 file;
  std::uint64_t offset;
  count3 count;
};
struct READ3resok {
  post_op_attr file_attributes;
  count3 count;
  std::uint32_t eof;
  Bytes data;
};
using READ3res = Reply<READ3resok>;

struct WRITE3args {
  nfs_fh3 file;
  std::uint64_t offset;
  count3 count;
  stable_how stable;
  Bytes data;
};
struct WRITE3resok {
  wcc_data file_wcc;
  count3 count;
  stable_how committed;
  char verf[write_verifier_bytes];
};
using WRITE3res = Reply<WRITE3resok>;

struct COMMIT3args {
  nfs_fh3 file;
  std::uint64_t offset;
  count3 count;
};
struct COMMIT3resok {
  wcc_data file_wcc;
  char verf[write_verifier_bytes];
};
using COMMIT3res = Reply<COMMIT3resok>;

struct CREATE3args {
  diropargs3 where;
  createhow3 how;
};
struct CREATE3resok {
  post_op_fh3 obj;
  post_op_attr obj_attributes;
  wcc_data dir_wcc;
};
using CREATE3res = Reply<CREATE3resok>;

struct REMOVE3args {
  diropargs3 object;
};
using REMOVE3res = Refusable;

struct RENAME3args {
  diropargs3 from;
  diropargs3 to;
};
using RENAME3res = Refusable;

struct LINK3args {
  nfs_fh3 file;
  diropargs3 link;
};
using LINK3res = Refusable;

struct symlinkdata3 {
  sattr3 symlink_attributes;
  char* symlink_data;
};
struct SYMLINK3args {
  diropargs3 where;
  symlinkdata3 symlink;
};
using SYMLINK3res = Refusable;

struct MKDIR3args {
  diropargs3 where;
  sattr3 attributes;
};
using MKDIR3res = Refusable;

struct RMDIR3args {
  diropargs3 object;
};
using RMDIR3res = Refusable;

struct READDIRPLUS3args {
  nfs_fh3 dir;
  std::uint64_t cookie;
  char cookieverf[cookie_verifier_bytes];
  count3 dircount;
  count3 maxcount;
};
struct READDIRPLUS3resok {
  post_op_attr dir_attributes;
  char cookieverf[cookie_verifier_bytes];
  dirlistplus3 reply;
};
using READDIRPLUS3res = Reply<READDIRPLUS3resok>;

struct FSINFO3args {
  nfs_fh3 fsroot;
};
struct FSINFO3resok {
  post_op_attr obj_attributes;
  std::uint32_t rtmax;
  std::uint32_t rtpref;
  std::uint32_t rtmult;
  std::uint32_t wtmax;
  std::uint32_t wtpref;
  std::uint32_t wtmult;
  std::uint32_t dtpref;
  std::uint64_t maxfilesize;
  nfstime3 time_delta;
  std::uint32_t properties;
};
using FSINFO3res = Reply<FSINFO3resok>;

// ---- the mount protocol ------------------------------------------------------------------------

struct groupnode;
struct exportnode {
  char* ex_dir;
  groupnode* ex_groups;
  exportnode* ex_next;
};
using exports = exportnode*;

struct fhandle3 {
  std::uint32_t fhandle3_len;
  char* fhandle3_val;
};
struct mountres3_ok {
  fhandle3 fhandle;
  struct {
    std::uint32_t auth_flavors_len;
    int* auth_flavors_val;
  } auth_flavors;
};
struct mountres3 {
  mountstat3 fhs_status;
  mountres3_ok mountinfo;
};

// NOLINTEND(readability-identifier-naming)

}  // namespace nfs3
}  // namespace ferry::storage
