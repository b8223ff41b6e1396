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

struct NfsLibrary {
  // Throws Unavailable.
  explicit NfsLibrary(const std::string& file_name);

  decltype(::nfs_init_context)* nfs_init_context = nullptr;
  decltype(::nfs_destroy_context)* nfs_destroy_context = nullptr;
  decltype(::nfs_set_autoreconnect)* nfs_set_autoreconnect = nullptr;
  decltype(::nfs_get_rpc_context)* nfs_get_rpc_context = nullptr;
  decltype(::rpc_set_uid)* rpc_set_uid = nullptr;
  decltype(::rpc_set_gid)* rpc_set_gid = nullptr;
  decltype(::rpc_get_fd)* rpc_get_fd = nullptr;
  decltype(::rpc_which_events)* rpc_which_events = nullptr;
  decltype(::rpc_service)* rpc_service = nullptr;
  decltype(::rpc_connect_port_async)* rpc_connect_port_async = nullptr;
  decltype(::rpc_connect_program_async)* rpc_connect_program_async = nullptr;
  decltype(::rpc_mount3_export_async)* rpc_mount3_export_async = nullptr;
  decltype(::rpc_mount3_mnt_async)* rpc_mount3_mnt_async = nullptr;
  decltype(::mountstat3_to_errno)* mountstat3_to_errno = nullptr;
  decltype(::rpc_nfs3_getattr_async)* rpc_nfs3_getattr_async = nullptr;
  decltype(::rpc_nfs3_setattr_async)* rpc_nfs3_setattr_async = nullptr;
  decltype(::rpc_nfs3_lookup_async)* rpc_nfs3_lookup_async = nullptr;
  decltype(::rpc_nfs3_access_async)* rpc_nfs3_access_async = nullptr;
  decltype(::rpc_nfs3_readlink_async)* rpc_nfs3_readlink_async = nullptr;
  decltype(::rpc_nfs3_read_async)* rpc_nfs3_read_async = nullptr;
  decltype(::rpc_nfs3_write_async)* rpc_nfs3_write_async = nullptr;
  decltype(::rpc_nfs3_create_async)* rpc_nfs3_create_async = nullptr;
  decltype(::rpc_nfs3_remove_async)* rpc_nfs3_remove_async = nullptr;
  decltype(::rpc_nfs3_rename_async)* rpc_nfs3_rename_async = nullptr;
  decltype(::rpc_nfs3_fsinfo_async)* rpc_nfs3_fsinfo_async = nullptr;
  decltype(::rpc_nfs3_commit_async)* rpc_nfs3_commit_async = nullptr;
};

}  // namespace ferry::storage
