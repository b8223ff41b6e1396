// The functions of libcephfs that Ferry calls, loaded at run time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <dirent.h>
#include <sys/types.h>

#include "storage/ceph/abi.hpp"
#include "storage/library.hpp"

namespace ferry::storage {

struct CephLibrary : Library {
  // Throws Unavailable.
  explicit CephLibrary(const std::string& file_name)
      : Library({file_name}, install_package("libcephfs2")) {}

  int (*ceph_create)(ceph::Client**, const char*) = symbol("ceph_create");
  int (*ceph_conf_read_file)(ceph::Client*, const char*) = symbol("ceph_conf_read_file");
  int (*ceph_conf_parse_env)(ceph::Client*, const char*) = symbol("ceph_conf_parse_env");
  int (*ceph_conf_set)(ceph::Client*, const char*, const char*) = symbol("ceph_conf_set");
  int (*ceph_conf_get)(ceph::Client*, const char*, char*, std::size_t) = symbol("ceph_conf_get");
  int (*ceph_select_filesystem)(ceph::Client*, const char*) = symbol("ceph_select_filesystem");
  int (*ceph_mount)(ceph::Client*, const char*) = symbol("ceph_mount");
  int (*ceph_unmount)(ceph::Client*) = symbol("ceph_unmount");
  int (*ceph_release)(ceph::Client*) = symbol("ceph_release");
  mode_t (*ceph_umask)(ceph::Client*, mode_t) = symbol("ceph_umask");
  int (*ceph_open)(ceph::Client*, const char*, int, mode_t) = symbol("ceph_open");
  int (*ceph_open_layout)(ceph::Client*, const char*, int, mode_t, int, int, int,
                          const char*) = symbol("ceph_open_layout");
  int (*ceph_close)(ceph::Client*, int) = symbol("ceph_close");
  int (*ceph_read)(ceph::Client*, int, char*, std::int64_t, std::int64_t) = symbol("ceph_read");
  int (*ceph_write)(ceph::Client*, int, const char*, std::int64_t,
                    std::int64_t) = symbol("ceph_write");
  int (*ceph_fsync)(ceph::Client*, int, int) = symbol("ceph_fsync");
  int (*ceph_debug_get_fd_caps)(ceph::Client*, int) = symbol("ceph_debug_get_fd_caps");
  int (*ceph_lazyio_synchronize)(ceph::Client*, int, std::int64_t,
                                 std::size_t) = symbol("ceph_lazyio_synchronize");
  int (*ceph_ftruncate)(ceph::Client*, int, std::int64_t) = symbol("ceph_ftruncate");
  int (*ceph_fstatx)(ceph::Client*, int, ceph::Statx*, unsigned, unsigned) = symbol("ceph_fstatx");
  int (*ceph_statx)(ceph::Client*, const char*, ceph::Statx*, unsigned,
                    unsigned) = symbol("ceph_statx");
  int (*ceph_setattrx)(ceph::Client*, const char*, ceph::Statx*, int,
                       int) = symbol("ceph_setattrx");
  int (*ceph_unlink)(ceph::Client*, const char*) = symbol("ceph_unlink");
  int (*ceph_rename)(ceph::Client*, const char*, const char*) = symbol("ceph_rename");
  int (*ceph_link)(ceph::Client*, const char*, const char*) = symbol("ceph_link");
  int (*ceph_symlink)(ceph::Client*, const char*, const char*) = symbol("ceph_symlink");
  int (*ceph_readlink)(ceph::Client*, const char*, char*, std::int64_t) = symbol("ceph_readlink");
  int (*ceph_mkdir)(ceph::Client*, const char*, mode_t) = symbol("ceph_mkdir");
  int (*ceph_rmdir)(ceph::Client*, const char*) = symbol("ceph_rmdir");
  int (*ceph_opendir)(ceph::Client*, const char*, ceph::Directory**) = symbol("ceph_opendir");
  int (*ceph_readdirplus_r)(ceph::Client*, ceph::Directory*, dirent*, ceph::Statx*, unsigned,
                            unsigned, ceph::Inode**) = symbol("ceph_readdirplus_r");
  int (*ceph_closedir)(ceph::Client*, ceph::Directory*) = symbol("ceph_closedir");
  int (*ceph_setxattr)(ceph::Client*, const char*, const char*, const void*, std::size_t,
                       int) = symbol("ceph_setxattr");
  int (*ceph_get_path_layout)(ceph::Client*, const char*, int*, int*, int*,
                              int*) = symbol("ceph_get_path_layout");
  int (*ceph_get_file_layout)(ceph::Client*, int, int*, int*, int*,
                              int*) = symbol("ceph_get_file_layout");
  int (*ceph_get_pool_name)(ceph::Client*, int, char*, std::size_t) = symbol("ceph_get_pool_name");
};

}  // namespace ferry::storage
