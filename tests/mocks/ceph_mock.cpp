// A mock of libcephfs for tests of hanging calls and forks, without a cluster. It has the symbols
// that Ferry loads and keeps files in the local folder named by the first line of the configuration
// file. It knows no layouts. Like the real one, it drops a slash at the end of a path.
// mock_ceph_hang() makes it hang.
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <fstream>
#include <mutex>
#include <string>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

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

struct Faults {
  std::mutex mutex;
  std::condition_variable changed;
  std::string hanging;
  int inside = 0;
  int calls = 0;
};

Faults& faults() {
  static auto& all = *new Faults;
  return all;
}

void may_hang(const char* function) {
  std::unique_lock lock(faults().mutex);
  ++faults().calls;
  ++faults().inside;
  faults().changed.notify_all();
  faults().changed.wait(lock, [&] { return faults().hanging != function; });
  --faults().inside;
}

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

void fill(const struct stat& from, ceph::Statx* to) {
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
}

}  // namespace

extern "C" {

// From now on, calls of `function` ("ceph_write" and the like) wait; with "", none do.
void mock_ceph_hang(const char* function) {
  const std::lock_guard lock(faults().mutex);
  faults().hanging = function;
  faults().changed.notify_all();
}

// How many calls are in the library.
int mock_ceph_inside() {
  const std::lock_guard lock(faults().mutex);
  return faults().inside;
}

// The number of calls so far, in a child of fork() including its parent's.
int mock_ceph_calls() {
  const std::lock_guard lock(faults().mutex);
  return faults().calls;
}

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
  struct stat status {};
  if (fstat(fd, &status) != 0) return -errno;
  fill(status, found);
  return 0;
}

int ceph_statx(ceph::Client* mount, const char* path, ceph::Statx* found, unsigned,
               unsigned flags) {
  may_hang("ceph_statx");
  struct stat status {};
  const int how = (flags & AT_SYMLINK_NOFOLLOW) != 0 ? AT_SYMLINK_NOFOLLOW : 0;
  if (fstatat(AT_FDCWD, at(mount, path).c_str(), &status, how) != 0) return -errno;
  fill(status, found);
  return 0;
}

int ceph_unlink(ceph::Client* mount, const char* path) {
  may_hang("ceph_unlink");
  return or_error(unlink(at(mount, path).c_str()));
}

int ceph_rename(ceph::Client* mount, const char* from, const char* to) {
  may_hang("ceph_rename");
  return or_error(rename(at(mount, from).c_str(), at(mount, to).c_str()));
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
  struct stat status {};
  if (fstatat(dirfd(opened->directory), next->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0)
    return -errno;
  fill(status, found);
  return 1;
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
