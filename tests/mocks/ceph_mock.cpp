// A mock of libcephfs for tests of hanging calls and forks, without a cluster. It has the symbols
// that Ferry loads and keeps files in the local folder named by the first line of the configuration
// file. It knows no layouts. Like the real one, it drops a slash at the end of a path.
// mock_hang() makes it hang.
#include <cerrno>
#include <cstring>
#include <fstream>
#include <string>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mocks/faults.hpp"
#include "storage/ceph/abi.hpp"

namespace ferry::storage::ceph {

struct Client {
  std::string root;
};

struct Directory {
  DIR* directory;
};

}  // namespace ferry::storage::ceph

namespace ceph = ferry::storage::ceph;

namespace {

template <class Result>
Result or_error(Result result) {
  return result < 0 ? -errno : result;
}

std::string at(const ceph::Client* mount, const char* path) {
  std::string whole = mount->root + path;
  while (whole.size() > 1 && whole.back() == '/')
    whole.pop_back();
  return whole;
}

int fill_from(int folder, const char* path, int flags, ceph::Statx* to) {
  struct stat from {};
  if (fstatat(folder, path, &from, flags) != 0) return -errno;
  *to = {};
  to->mask = ceph::basic_members;
  to->mode = static_cast<std::uint16_t>(from.st_mode);
  to->links = static_cast<std::uint32_t>(from.st_nlink);
  to->owner = from.st_uid;
  to->group = from.st_gid;
  to->inode = from.st_ino;
  to->size_bytes = static_cast<std::uint64_t>(from.st_size);
  to->blocks = static_cast<std::uint64_t>(from.st_blocks);
  to->block_bytes = static_cast<std::uint32_t>(from.st_blksize);
  to->device = from.st_dev;
  to->modified = from.st_mtim;
  to->changed = from.st_ctim;
  return 0;
}

}  // namespace

extern "C" {

int ceph_create(ceph::Client** mount, const char*) {
  may_hang("ceph_create");
  *mount = new ceph::Client;
  return 0;
}

int ceph_conf_read_file(ceph::Client* mount, const char* path) {
  if (path == nullptr) return -ENOENT;
  std::ifstream file(path);
  return std::getline(file, mount->root) ? 0 : -ENOENT;
}

int ceph_conf_parse_env(ceph::Client*, const char*) {
  return 0;
}

int ceph_conf_set(ceph::Client*, const char*, const char*) {
  return 0;
}

int ceph_conf_get(ceph::Client*, const char*, char* text, std::size_t bytes) {
  std::strncpy(text, "mock", bytes);
  return 0;
}

int ceph_select_filesystem(ceph::Client*, const char*) {
  return 0;
}

int ceph_mount(ceph::Client*, const char*) {
  may_hang("ceph_mount");
  return 0;
}

int ceph_unmount(ceph::Client*) {
  may_hang("ceph_unmount");
  return 0;
}

int ceph_release(ceph::Client* mount) {
  delete mount;
  return 0;
}

mode_t ceph_umask(ceph::Client*, mode_t) {
  return 0;
}

int ceph_open(ceph::Client* mount, const char* path, int flags, mode_t mode) {
  may_hang("ceph_open");
  return or_error(open(at(mount, path).c_str(), flags | O_CLOEXEC, mode));
}

int ceph_open_layout(ceph::Client*, const char*, int, mode_t, int, int, int, const char*) {
  return -EOPNOTSUPP;
}

int ceph_close(ceph::Client*, int fd) {
  may_hang("ceph_close");
  return or_error(close(fd));
}

int ceph_read(ceph::Client*, int fd, char* memory, std::int64_t bytes, std::int64_t offset) {
  may_hang("ceph_read");
  return static_cast<int>(or_error(pread(fd, memory, static_cast<std::size_t>(bytes), offset)));
}

int ceph_write(ceph::Client*, int fd, const char* memory, std::int64_t bytes, std::int64_t offset) {
  may_hang("ceph_write");
  return static_cast<int>(or_error(pwrite(fd, memory, static_cast<std::size_t>(bytes), offset)));
}

int ceph_fsync(ceph::Client*, int fd, int) {
  may_hang("ceph_fsync");
  return or_error(fsync(fd));
}

int ceph_lazyio_synchronize(ceph::Client*, int, std::int64_t, std::size_t) {
  return 0;
}

int ceph_ftruncate(ceph::Client*, int fd, std::int64_t bytes) {
  may_hang("ceph_ftruncate");
  return or_error(ftruncate(fd, bytes));
}

int ceph_fstatx(ceph::Client*, int fd, ceph::Statx* found, unsigned, unsigned) {
  may_hang("ceph_fstatx");
  return fill_from(fd, "", AT_EMPTY_PATH, found);
}

int ceph_statx(ceph::Client* mount, const char* path, ceph::Statx* found, unsigned,
               unsigned flags) {
  may_hang("ceph_statx");
  const int how = static_cast<int>(flags) & AT_SYMLINK_NOFOLLOW;
  return fill_from(AT_FDCWD, at(mount, path).c_str(), how, found);
}

int ceph_setattrx(ceph::Client* mount, const char* path, ceph::Statx* to, int wanted, int) {
  may_hang("ceph_setattrx");
  const std::string where = at(mount, path);
  const auto has = [&](int member) { return (wanted & member) != 0; };
  const timespec times[2] = {has(ceph::set_accessed) ? to->accessed : timespec{0, UTIME_OMIT},
                             has(ceph::set_modified) ? to->modified : timespec{0, UTIME_OMIT}};
  if (has(ceph::set_mode) && chmod(where.c_str(), to->mode) != 0) return -errno;
  return or_error(utimensat(AT_FDCWD, where.c_str(), times, 0));
}

int ceph_unlink(ceph::Client* mount, const char* path) {
  may_hang("ceph_unlink");
  return or_error(unlink(at(mount, path).c_str()));
}

int ceph_rename(ceph::Client* mount, const char* from, const char* to) {
  may_hang("ceph_rename");
  return or_error(rename(at(mount, from).c_str(), at(mount, to).c_str()));
}

int ceph_link(ceph::Client* mount, const char* from, const char* to) {
  return or_error(link(at(mount, from).c_str(), at(mount, to).c_str()));
}

int ceph_symlink(ceph::Client* mount, const char* text, const char* path) {
  return or_error(symlink(text, at(mount, path).c_str()));
}

int ceph_readlink(ceph::Client* mount, const char* path, char* text, std::int64_t size) {
  return or_error(
      static_cast<int>(readlink(at(mount, path).c_str(), text, static_cast<std::size_t>(size))));
}

int ceph_mkdir(ceph::Client* mount, const char* path, mode_t mode) {
  may_hang("ceph_mkdir");
  return or_error(mkdir(at(mount, path).c_str(), mode));
}

int ceph_rmdir(ceph::Client* mount, const char* path) {
  may_hang("ceph_rmdir");
  return or_error(rmdir(at(mount, path).c_str()));
}

int ceph_opendir(ceph::Client* mount, const char* path, ceph::Directory** opened) {
  DIR* directory = opendir(at(mount, path).c_str());
  if (directory == nullptr) return -errno;
  *opened = new ceph::Directory{directory};
  return 0;
}

int ceph_readdirplus_r(ceph::Client*, ceph::Directory* opened, dirent* entry, ceph::Statx* found,
                       unsigned, unsigned, ceph::Inode**) {
  errno = 0;
  const dirent* next = readdir(opened->directory);
  if (next == nullptr) return -errno;
  *entry = *next;
  const int error = fill_from(dirfd(opened->directory), next->d_name, AT_SYMLINK_NOFOLLOW, found);
  return error != 0 ? error : 1;
}

int ceph_closedir(ceph::Client*, ceph::Directory* opened) {
  closedir(opened->directory);
  delete opened;
  return 0;
}

int ceph_setxattr(ceph::Client*, const char*, const char*, const void*, std::size_t, int) {
  return -EOPNOTSUPP;
}

int ceph_get_path_layout(ceph::Client*, const char*, int*, int*, int*, int*) {
  return -EOPNOTSUPP;
}

int ceph_get_file_layout(ceph::Client*, int, int*, int*, int*, int*) {
  return -EOPNOTSUPP;
}

int ceph_get_pool_name(ceph::Client*, int, char*, std::size_t) {
  return -ENOENT;
}

}  // extern "C"
