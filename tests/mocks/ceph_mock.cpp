// A mock of libcephfs for tests of calls that hang and of forks, where no cluster is at hand. It
// has the symbols that Ferry loads and keeps files in a folder of this machine: the one that the
// first line of the configuration file names. It knows no layouts. As the real one, it drops a
// slash at the end of a path.
//
// It hangs when told to: mock_ceph_hang().
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <fstream>
#include <mutex>
#include <string>

#include <cephfs/libcephfs.h>
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

struct ceph_mount_info {
  std::string root;
};

struct ceph_dir_result {
  DIR* directory;
};

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

std::string at(const ceph_mount_info* mount, const char* path) {
  std::string whole = mount->root + path;
  while (whole.size() > 1 && whole.back() == '/')
    whole.pop_back();
  return whole;
}

void fill(const struct stat& from, struct ceph_statx* to) {
  std::memset(to, 0, sizeof *to);
  to->stx_mask = CEPH_STATX_BASIC_STATS;
  to->stx_mode = static_cast<std::uint16_t>(from.st_mode);
  to->stx_nlink = static_cast<std::uint32_t>(from.st_nlink);
  to->stx_uid = from.st_uid;
  to->stx_gid = from.st_gid;
  to->stx_ino = from.st_ino;
  to->stx_size = static_cast<std::uint64_t>(from.st_size);
  to->stx_blocks = static_cast<std::uint64_t>(from.st_blocks);
  to->stx_blksize = static_cast<std::uint32_t>(from.st_blksize);
  to->stx_dev = from.st_dev;
  to->stx_mtime = from.st_mtim;
  to->stx_ctime = from.st_ctim;
}

}  // namespace

extern "C" {

// Calls of `function`, "ceph_write" and the like, wait from now on; of "": none do.
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

// How many there have been, and in a child of fork() those of its parent.
int mock_ceph_calls() {
  const std::lock_guard lock(faults().mutex);
  return faults().calls;
}

int ceph_create(ceph_mount_info** mount, const char*) {
  may_hang("ceph_create");
  *mount = new ceph_mount_info;
  return 0;
}

int ceph_conf_read_file(ceph_mount_info* mount, const char* path) {
  if (path == nullptr) return -ENOENT;
  std::ifstream file(path);
  return std::getline(file, mount->root) ? 0 : -ENOENT;
}

int ceph_conf_parse_env(ceph_mount_info*, const char*) {
  return 0;
}

int ceph_conf_set(ceph_mount_info*, const char*, const char*) {
  return 0;
}

int ceph_conf_get(ceph_mount_info*, const char*, char* text, std::size_t bytes) {
  std::strncpy(text, "mock", bytes);
  return 0;
}

int ceph_select_filesystem(ceph_mount_info*, const char*) {
  return 0;
}

int ceph_mount(ceph_mount_info*, const char*) {
  may_hang("ceph_mount");
  return 0;
}

int ceph_unmount(ceph_mount_info*) {
  may_hang("ceph_unmount");
  return 0;
}

int ceph_release(ceph_mount_info* mount) {
  delete mount;
  return 0;
}

mode_t ceph_umask(ceph_mount_info*, mode_t) {
  return 0;
}

int ceph_open(ceph_mount_info* mount, const char* path, int flags, mode_t mode) {
  may_hang("ceph_open");
  return or_error(open(at(mount, path).c_str(), flags | O_CLOEXEC, mode));
}

int ceph_open_layout(ceph_mount_info*, const char*, int, mode_t, int, int, int, const char*) {
  return -EOPNOTSUPP;
}

int ceph_close(ceph_mount_info*, int fd) {
  may_hang("ceph_close");
  return or_error(close(fd));
}

int ceph_read(ceph_mount_info*, int fd, char* memory, std::int64_t bytes, std::int64_t offset) {
  may_hang("ceph_read");
  return static_cast<int>(or_error(pread(fd, memory, static_cast<std::size_t>(bytes), offset)));
}

int ceph_write(ceph_mount_info*, int fd, const char* memory, std::int64_t bytes,
               std::int64_t offset) {
  may_hang("ceph_write");
  return static_cast<int>(or_error(pwrite(fd, memory, static_cast<std::size_t>(bytes), offset)));
}

int ceph_fsync(ceph_mount_info*, int fd, int) {
  may_hang("ceph_fsync");
  return or_error(fsync(fd));
}

int ceph_lazyio_synchronize(ceph_mount_info*, int, std::int64_t, std::size_t) {
  return 0;
}

int ceph_ftruncate(ceph_mount_info*, int fd, std::int64_t bytes) {
  may_hang("ceph_ftruncate");
  return or_error(ftruncate(fd, bytes));
}

int ceph_fstatx(ceph_mount_info*, int fd, struct ceph_statx* found, unsigned, unsigned) {
  may_hang("ceph_fstatx");
  struct stat status {};
  if (fstat(fd, &status) != 0) return -errno;
  fill(status, found);
  return 0;
}

int ceph_statx(ceph_mount_info* mount, const char* path, struct ceph_statx* found, unsigned,
               unsigned flags) {
  may_hang("ceph_statx");
  struct stat status {};
  const int how = (flags & AT_SYMLINK_NOFOLLOW) != 0 ? AT_SYMLINK_NOFOLLOW : 0;
  if (fstatat(AT_FDCWD, at(mount, path).c_str(), &status, how) != 0) return -errno;
  fill(status, found);
  return 0;
}

int ceph_unlink(ceph_mount_info* mount, const char* path) {
  may_hang("ceph_unlink");
  return or_error(unlink(at(mount, path).c_str()));
}

int ceph_rename(ceph_mount_info* mount, const char* from, const char* to) {
  may_hang("ceph_rename");
  return or_error(rename(at(mount, from).c_str(), at(mount, to).c_str()));
}

int ceph_mkdir(ceph_mount_info* mount, const char* path, mode_t mode) {
  may_hang("ceph_mkdir");
  return or_error(mkdir(at(mount, path).c_str(), mode));
}

int ceph_rmdir(ceph_mount_info* mount, const char* path) {
  may_hang("ceph_rmdir");
  return or_error(rmdir(at(mount, path).c_str()));
}

int ceph_opendir(ceph_mount_info* mount, const char* path, ceph_dir_result** opened) {
  DIR* directory = opendir(at(mount, path).c_str());
  if (directory == nullptr) return -errno;
  *opened = new ceph_dir_result{directory};
  return 0;
}

int ceph_readdirplus_r(ceph_mount_info*, ceph_dir_result* opened, dirent* entry,
                       struct ceph_statx* found, unsigned, unsigned, Inode**) {
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

int ceph_closedir(ceph_mount_info*, ceph_dir_result* opened) {
  closedir(opened->directory);
  delete opened;
  return 0;
}

int ceph_setxattr(ceph_mount_info*, const char*, const char*, const void*, std::size_t, int) {
  return -EOPNOTSUPP;
}

int ceph_get_path_layout(ceph_mount_info*, const char*, int*, int*, int*, int*) {
  return -EOPNOTSUPP;
}

int ceph_get_file_layout(ceph_mount_info*, int, int*, int*, int*, int*) {
  return -EOPNOTSUPP;
}

int ceph_get_pool_name(ceph_mount_info*, int, char*, std::size_t) {
  return -ENOENT;
}

}  // extern "C"
