// The functions of libnfs that Ferry calls, loaded at run time.
//
// Only its RPC layer is used: one call per request. The file functions above it do not report
// whether a server lost unsynced writes (the write verifier of RFC 1813), and touch the caller's
// buffer after a call has failed.
#pragma once

#include <string>
#include <vector>

#include "storage/library.hpp"
#include "storage/nfs/abi.hpp"

namespace ferry::storage {

// Starts a call.
template <class Arguments>
using NfsCall = int (*)(rpc_context*, rpc_cb, Arguments*, void*);

struct NfsLibrary : Library {
  // Throws Unavailable.
  explicit NfsLibrary(const std::vector<std::string>& file_names)
      : Library(file_names, install_package("libnfs13 or libnfs14")) {}

  nfs_context* (*nfs_init_context)() = symbol("nfs_init_context");
  void (*nfs_destroy_context)(nfs_context*) = symbol("nfs_destroy_context");
  void (*nfs_set_autoreconnect)(nfs_context*, int) = symbol("nfs_set_autoreconnect");
  rpc_context* (*nfs_get_rpc_context)(nfs_context*) = symbol("nfs_get_rpc_context");
  void (*rpc_set_uid)(rpc_context*, int) = symbol("rpc_set_uid");
  void (*rpc_set_gid)(rpc_context*, int) = symbol("rpc_set_gid");
  int (*rpc_get_fd)(rpc_context*) = symbol("rpc_get_fd");
  int (*rpc_which_events)(rpc_context*) = symbol("rpc_which_events");
  int (*rpc_service)(rpc_context*, int) = symbol("rpc_service");
  int (*rpc_connect_port_async)(rpc_context*, const char*, int, int, int, rpc_cb,
                                void*) = symbol("rpc_connect_port_async");
  int (*rpc_connect_program_async)(rpc_context*, const char*, int, int, rpc_cb,
                                   void*) = symbol("rpc_connect_program_async");
  int (*rpc_mount3_export_async)(rpc_context*, rpc_cb, void*) = symbol("rpc_mount3_export_async");
  int (*rpc_mount3_mnt_async)(rpc_context*, rpc_cb, char*, void*) = symbol("rpc_mount3_mnt_async");
  int (*mountstat3_to_errno)(int) = symbol("mountstat3_to_errno");
  NfsCall<GETATTR3args> rpc_nfs3_getattr_async = symbol("rpc_nfs3_getattr_async");
  NfsCall<SETATTR3args> rpc_nfs3_setattr_async = symbol("rpc_nfs3_setattr_async");
  NfsCall<LOOKUP3args> rpc_nfs3_lookup_async = symbol("rpc_nfs3_lookup_async");
  NfsCall<ACCESS3args> rpc_nfs3_access_async = symbol("rpc_nfs3_access_async");
  NfsCall<READLINK3args> rpc_nfs3_readlink_async = symbol("rpc_nfs3_readlink_async");
  NfsCall<READ3args> rpc_nfs3_read_async = symbol("rpc_nfs3_read_async");
  NfsCall<WRITE3args> rpc_nfs3_write_async = symbol("rpc_nfs3_write_async");
  NfsCall<CREATE3args> rpc_nfs3_create_async = symbol("rpc_nfs3_create_async");
  NfsCall<REMOVE3args> rpc_nfs3_remove_async = symbol("rpc_nfs3_remove_async");
  NfsCall<RENAME3args> rpc_nfs3_rename_async = symbol("rpc_nfs3_rename_async");
  NfsCall<LINK3args> rpc_nfs3_link_async = symbol("rpc_nfs3_link_async");
  NfsCall<SYMLINK3args> rpc_nfs3_symlink_async = symbol("rpc_nfs3_symlink_async");
  NfsCall<MKDIR3args> rpc_nfs3_mkdir_async = symbol("rpc_nfs3_mkdir_async");
  NfsCall<RMDIR3args> rpc_nfs3_rmdir_async = symbol("rpc_nfs3_rmdir_async");
  NfsCall<READDIRPLUS3args> rpc_nfs3_readdirplus_async = symbol("rpc_nfs3_readdirplus_async");
  NfsCall<FSINFO3args> rpc_nfs3_fsinfo_async = symbol("rpc_nfs3_fsinfo_async");
  NfsCall<COMMIT3args> rpc_nfs3_commit_async = symbol("rpc_nfs3_commit_async");
};

}  // namespace ferry::storage
