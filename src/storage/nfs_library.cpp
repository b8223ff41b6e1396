#include "storage/nfs_library.hpp"

namespace ferry::storage {

NfsLibrary::NfsLibrary(const std::string& file_name) {
  const Library library(file_name, "libnfs13");
  library.load(nfs_init_context, "nfs_init_context");
  library.load(nfs_destroy_context, "nfs_destroy_context");
  library.load(nfs_set_autoreconnect, "nfs_set_autoreconnect");
  library.load(nfs_get_rpc_context, "nfs_get_rpc_context");
  library.load(rpc_set_uid, "rpc_set_uid");
  library.load(rpc_set_gid, "rpc_set_gid");
  library.load(rpc_get_fd, "rpc_get_fd");
  library.load(rpc_which_events, "rpc_which_events");
  library.load(rpc_service, "rpc_service");
  library.load(rpc_connect_port_async, "rpc_connect_port_async");
  library.load(rpc_connect_program_async, "rpc_connect_program_async");
  library.load(rpc_mount3_export_async, "rpc_mount3_export_async");
  library.load(rpc_mount3_mnt_async, "rpc_mount3_mnt_async");
  library.load(mountstat3_to_errno, "mountstat3_to_errno");
  library.load(rpc_nfs3_getattr_async, "rpc_nfs3_getattr_async");
  library.load(rpc_nfs3_setattr_async, "rpc_nfs3_setattr_async");
  library.load(rpc_nfs3_lookup_async, "rpc_nfs3_lookup_async");
  library.load(rpc_nfs3_access_async, "rpc_nfs3_access_async");
  library.load(rpc_nfs3_readlink_async, "rpc_nfs3_readlink_async");
  library.load(rpc_nfs3_read_async, "rpc_nfs3_read_async");
  library.load(rpc_nfs3_write_async, "rpc_nfs3_write_async");
  library.load(rpc_nfs3_create_async, "rpc_nfs3_create_async");
  library.load(rpc_nfs3_remove_async, "rpc_nfs3_remove_async");
  library.load(rpc_nfs3_rename_async, "rpc_nfs3_rename_async");
  library.load(rpc_nfs3_fsinfo_async, "rpc_nfs3_fsinfo_async");
  library.load(rpc_nfs3_commit_async, "rpc_nfs3_commit_async");
}

}  // namespace ferry::storage
