// The functions of libnfs that Ferry calls, loaded at run time.
//
// Only its RPC layer is used: one call of this per request on the wire. The file functions above it
// would not tell whether a server forgot writes that it had not made durable (the write verifier of
// RFC 1813), and touch the caller's buffer after a call has failed.
#pragma once

#include <string>

// libnfs.h defines what the others need.
// clang-format off
extern "C" {
#include <nfsc/libnfs.h>
#include <nfsc/libnfs-raw.h>
#include <nfsc/libnfs-raw-mount.h>
#include <nfsc/libnfs-raw-nfs.h>
}
// clang-format on

#include "storage/library.hpp"

namespace ferry::storage {

struct NfsLibrary : Library {
  // Throws Unavailable.
  explicit NfsLibrary(const std::string& file_name)
      : Library(file_name, install_package("libnfs13")) {}

  decltype(::nfs_init_context)* nfs_init_context = symbol("nfs_init_context");
  decltype(::nfs_destroy_context)* nfs_destroy_context = symbol("nfs_destroy_context");
  decltype(::nfs_set_autoreconnect)* nfs_set_autoreconnect = symbol("nfs_set_autoreconnect");
  decltype(::nfs_get_rpc_context)* nfs_get_rpc_context = symbol("nfs_get_rpc_context");
  decltype(::rpc_set_uid)* rpc_set_uid = symbol("rpc_set_uid");
  decltype(::rpc_set_gid)* rpc_set_gid = symbol("rpc_set_gid");
  decltype(::rpc_get_fd)* rpc_get_fd = symbol("rpc_get_fd");
  decltype(::rpc_which_events)* rpc_which_events = symbol("rpc_which_events");
  decltype(::rpc_service)* rpc_service = symbol("rpc_service");
  decltype(::rpc_connect_port_async)* rpc_connect_port_async = symbol("rpc_connect_port_async");
  decltype(::rpc_connect_program_async)* rpc_connect_program_async =
      symbol("rpc_connect_program_async");
  decltype(::rpc_mount3_export_async)* rpc_mount3_export_async = symbol("rpc_mount3_export_async");
  decltype(::rpc_mount3_mnt_async)* rpc_mount3_mnt_async = symbol("rpc_mount3_mnt_async");
  decltype(::mountstat3_to_errno)* mountstat3_to_errno = symbol("mountstat3_to_errno");
  decltype(::rpc_nfs3_getattr_async)* rpc_nfs3_getattr_async = symbol("rpc_nfs3_getattr_async");
  decltype(::rpc_nfs3_setattr_async)* rpc_nfs3_setattr_async = symbol("rpc_nfs3_setattr_async");
  decltype(::rpc_nfs3_lookup_async)* rpc_nfs3_lookup_async = symbol("rpc_nfs3_lookup_async");
  decltype(::rpc_nfs3_access_async)* rpc_nfs3_access_async = symbol("rpc_nfs3_access_async");
  decltype(::rpc_nfs3_readlink_async)* rpc_nfs3_readlink_async = symbol("rpc_nfs3_readlink_async");
  decltype(::rpc_nfs3_read_async)* rpc_nfs3_read_async = symbol("rpc_nfs3_read_async");
  decltype(::rpc_nfs3_write_async)* rpc_nfs3_write_async = symbol("rpc_nfs3_write_async");
  decltype(::rpc_nfs3_create_async)* rpc_nfs3_create_async = symbol("rpc_nfs3_create_async");
  decltype(::rpc_nfs3_remove_async)* rpc_nfs3_remove_async = symbol("rpc_nfs3_remove_async");
  decltype(::rpc_nfs3_rename_async)* rpc_nfs3_rename_async = symbol("rpc_nfs3_rename_async");
  decltype(::rpc_nfs3_mkdir_async)* rpc_nfs3_mkdir_async = symbol("rpc_nfs3_mkdir_async");
  decltype(::rpc_nfs3_rmdir_async)* rpc_nfs3_rmdir_async = symbol("rpc_nfs3_rmdir_async");
  decltype(::rpc_nfs3_readdirplus_async)* rpc_nfs3_readdirplus_async =
      symbol("rpc_nfs3_readdirplus_async");
  decltype(::rpc_nfs3_fsinfo_async)* rpc_nfs3_fsinfo_async = symbol("rpc_nfs3_fsinfo_async");
  decltype(::rpc_nfs3_commit_async)* rpc_nfs3_commit_async = symbol("rpc_nfs3_commit_async");
};

}  // namespace ferry::storage
