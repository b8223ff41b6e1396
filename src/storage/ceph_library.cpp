#include "storage/ceph_library.hpp"

namespace ferry::storage {

CephLibrary::CephLibrary(const std::string& file_name) {
  const Library library(file_name, "libcephfs2");
  library.load(ceph_create, "ceph_create");
  library.load(ceph_conf_read_file, "ceph_conf_read_file");
  library.load(ceph_conf_parse_env, "ceph_conf_parse_env");
  library.load(ceph_conf_set, "ceph_conf_set");
  library.load(ceph_conf_get, "ceph_conf_get");
  library.load(ceph_select_filesystem, "ceph_select_filesystem");
  library.load(ceph_mount, "ceph_mount");
  library.load(ceph_unmount, "ceph_unmount");
  library.load(ceph_release, "ceph_release");
  library.load(ceph_umask, "ceph_umask");
  library.load(ceph_open, "ceph_open");
  library.load(ceph_open_layout, "ceph_open_layout");
  library.load(ceph_close, "ceph_close");
  library.load(ceph_read, "ceph_read");
  library.load(ceph_write, "ceph_write");
  library.load(ceph_fsync, "ceph_fsync");
  library.load(ceph_ftruncate, "ceph_ftruncate");
  library.load(ceph_fstatx, "ceph_fstatx");
  library.load(ceph_statx, "ceph_statx");
  library.load(ceph_unlink, "ceph_unlink");
  library.load(ceph_rename, "ceph_rename");
  library.load(ceph_setxattr, "ceph_setxattr");
  library.load(ceph_get_path_layout, "ceph_get_path_layout");
  library.load(ceph_get_file_layout, "ceph_get_file_layout");
  library.load(ceph_get_pool_name, "ceph_get_pool_name");
}

}  // namespace ferry::storage
