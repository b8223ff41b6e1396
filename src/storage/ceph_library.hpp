// The functions of libcephfs that Ferry calls, loaded at run time.
#pragma once

#include <string>

#include <cephfs/libcephfs.h>

#include "storage/library.hpp"

namespace ferry::storage {

struct CephLibrary {
  // Throws Unavailable.
  explicit CephLibrary(const std::string& file_name);

  decltype(::ceph_create)* ceph_create = nullptr;
  decltype(::ceph_conf_read_file)* ceph_conf_read_file = nullptr;
  decltype(::ceph_conf_parse_env)* ceph_conf_parse_env = nullptr;
  decltype(::ceph_conf_set)* ceph_conf_set = nullptr;
  decltype(::ceph_conf_get)* ceph_conf_get = nullptr;
  decltype(::ceph_select_filesystem)* ceph_select_filesystem = nullptr;
  decltype(::ceph_mount)* ceph_mount = nullptr;
  decltype(::ceph_unmount)* ceph_unmount = nullptr;
  decltype(::ceph_release)* ceph_release = nullptr;
  decltype(::ceph_umask)* ceph_umask = nullptr;
  decltype(::ceph_open)* ceph_open = nullptr;
  decltype(::ceph_open_layout)* ceph_open_layout = nullptr;
  decltype(::ceph_close)* ceph_close = nullptr;
  decltype(::ceph_read)* ceph_read = nullptr;
  decltype(::ceph_write)* ceph_write = nullptr;
  decltype(::ceph_fsync)* ceph_fsync = nullptr;
  decltype(::ceph_ftruncate)* ceph_ftruncate = nullptr;
  decltype(::ceph_fstatx)* ceph_fstatx = nullptr;
  decltype(::ceph_statx)* ceph_statx = nullptr;
  decltype(::ceph_unlink)* ceph_unlink = nullptr;
  decltype(::ceph_rename)* ceph_rename = nullptr;
  decltype(::ceph_setxattr)* ceph_setxattr = nullptr;
  decltype(::ceph_get_path_layout)* ceph_get_path_layout = nullptr;
  decltype(::ceph_get_file_layout)* ceph_get_file_layout = nullptr;
  decltype(::ceph_get_pool_name)* ceph_get_pool_name = nullptr;
};

}  // namespace ferry::storage
