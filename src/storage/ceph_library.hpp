// The functions of libcephfs that Ferry calls, loaded at run time.
#pragma once

#include <string>

#include <cephfs/libcephfs.h>

#include "storage/library.hpp"

namespace ferry::storage {

struct CephLibrary : Library {
  // Throws Unavailable.
  explicit CephLibrary(const std::string& file_name)
      : Library(file_name, install_package("libcephfs2")) {}

  decltype(::ceph_create)* ceph_create = symbol("ceph_create");
  decltype(::ceph_conf_read_file)* ceph_conf_read_file = symbol("ceph_conf_read_file");
  decltype(::ceph_conf_parse_env)* ceph_conf_parse_env = symbol("ceph_conf_parse_env");
  decltype(::ceph_conf_set)* ceph_conf_set = symbol("ceph_conf_set");
  decltype(::ceph_conf_get)* ceph_conf_get = symbol("ceph_conf_get");
  decltype(::ceph_select_filesystem)* ceph_select_filesystem = symbol("ceph_select_filesystem");
  decltype(::ceph_mount)* ceph_mount = symbol("ceph_mount");
  decltype(::ceph_unmount)* ceph_unmount = symbol("ceph_unmount");
  decltype(::ceph_release)* ceph_release = symbol("ceph_release");
  decltype(::ceph_umask)* ceph_umask = symbol("ceph_umask");
  decltype(::ceph_open)* ceph_open = symbol("ceph_open");
  decltype(::ceph_open_layout)* ceph_open_layout = symbol("ceph_open_layout");
  decltype(::ceph_close)* ceph_close = symbol("ceph_close");
  decltype(::ceph_read)* ceph_read = symbol("ceph_read");
  decltype(::ceph_write)* ceph_write = symbol("ceph_write");
  decltype(::ceph_fsync)* ceph_fsync = symbol("ceph_fsync");
  decltype(::ceph_lazyio_synchronize)* ceph_lazyio_synchronize = symbol("ceph_lazyio_synchronize");
  decltype(::ceph_ftruncate)* ceph_ftruncate = symbol("ceph_ftruncate");
  decltype(::ceph_fstatx)* ceph_fstatx = symbol("ceph_fstatx");
  decltype(::ceph_statx)* ceph_statx = symbol("ceph_statx");
  decltype(::ceph_unlink)* ceph_unlink = symbol("ceph_unlink");
  decltype(::ceph_rename)* ceph_rename = symbol("ceph_rename");
  decltype(::ceph_mkdir)* ceph_mkdir = symbol("ceph_mkdir");
  decltype(::ceph_rmdir)* ceph_rmdir = symbol("ceph_rmdir");
  decltype(::ceph_opendir)* ceph_opendir = symbol("ceph_opendir");
  decltype(::ceph_readdirplus_r)* ceph_readdirplus_r = symbol("ceph_readdirplus_r");
  decltype(::ceph_closedir)* ceph_closedir = symbol("ceph_closedir");
  decltype(::ceph_setxattr)* ceph_setxattr = symbol("ceph_setxattr");
  decltype(::ceph_get_path_layout)* ceph_get_path_layout = symbol("ceph_get_path_layout");
  decltype(::ceph_get_file_layout)* ceph_get_file_layout = symbol("ceph_get_file_layout");
  decltype(::ceph_get_pool_name)* ceph_get_pool_name = symbol("ceph_get_pool_name");
};

}  // namespace ferry::storage
