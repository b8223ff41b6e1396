// A mock of libcephfs for tests of hanging calls and forks, without a cluster. It has the symbols
// that Ferry loads and keeps files in the local folder named by the first line of the configuration
// file. It knows no layouts. Like the real one, it drops a slash at the end of a path.
// mock_hang() makes it hang, mock_ceph_forget() forget reads, and mock_ceph_lose_head() leave out
// bytes. A number of an open file is never given again, so that a call on one that is closed is an
// error.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "mocks/faults.hpp"
#include "storage/ceph/abi.hpp"

namespace ferry::storage::ceph {

struct Client {
  std::string root;
  int files = 0;  // that are open; guarded by State::mutex, as the next
  bool is_evicted = false;
};

struct Directory {
  DIR* directory;
};

}  // namespace ferry::storage::ceph

namespace ceph = ferry::storage::ceph;

namespace {

struct State {
  std::mutex mutex;
  std::map<int, int> descriptors;  // of open files, by number
  int last_number = 1000;
  std::set<ceph::Client*> clients;
  bool forgets = false;
  int sleeping = 0;                 // reads that it has forgotten
  std::map<int, int> asked;         // how often for the status of an open file, by number
  std::condition_variable changed;  // of the last two
  bool keeps = false;               // what a read has fetched, of one file
  std::int64_t kept_from = 0;
  std::int64_t kept_to = 0;
  std::int64_t longest_read = 0;  // what a read asked for
  int reads = 0;
  int rights_asked = 0;                                              // how often
  int stripe_bytes = 1 << 22;                                        // of all files
  std::int64_t bad_from = std::numeric_limits<std::int64_t>::max();  // as reads find
  // Closes of no open file and questions about one, and clients that end with an open one.
  int mistakes = 0;
  std::atomic<std::int64_t> lost_head = 0;  // bytes that the next read lacks
  int rights = ceph::may_cache;             // to a file, of all clients
  std::int64_t written = 0;                 // by the longest write so far, in bytes
};

State& state() {
  static auto& all = *new State;
  return all;
}

// -1 if that file is not open.
int descriptor_of(int number) {
  const std::lock_guard lock(state().mutex);
  const auto found = state().descriptors.find(number);
  return found == state().descriptors.end() ? -1 : found->second;
}

// A read of that file.
void sleep_if_forgotten(int number) {
  std::unique_lock lock(state().mutex);
  const int before = state().asked[number];
  ++state().sleeping;
  state().changed.wait(lock, [&] { return !state().forgets || state().asked[number] != before; });
  --state().sleeping;
}

// Of a read.
bool reaches_bad_bytes(std::int64_t bytes, std::int64_t offset) {
  const std::lock_guard lock(state().mutex);
  state().longest_read = std::max(state().longest_read, bytes);
  ++state().reads;
  return offset + bytes > state().bad_from;
}

// A read of bytes that it has not, if it keeps some, takes longer.
void fetch(std::int64_t bytes, std::int64_t offset) {
  {
    const std::lock_guard lock(state().mutex);
    if (!state().keeps) return;
    if (offset >= state().kept_from && offset + bytes <= state().kept_to) return;
    state().kept_from = offset;
    state().kept_to = (state().rights & ceph::may_cache) != 0 ? offset + bytes : offset;
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(4));
}

void let(int right, bool on) {
  const std::lock_guard lock(state().mutex);
  state().rights = on ? state().rights | right : state().rights & ~right;
}

bool is_evicted(const ceph::Client* mount) {
  const std::lock_guard lock(state().mutex);
  return mount->is_evicted;
}

template <class Result>
Result or_error(Result result) {
  return result < 0 ? -errno : result;
}

int ceph_error(int error) {
  return -error;
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

// How many files are open, of all clients.
int mock_ceph_files() {
  const std::lock_guard lock(state().mutex);
  return static_cast<int>(state().descriptors.size());
}

// How many clients there are.
int mock_ceph_clients() {
  const std::lock_guard lock(state().mutex);
  return static_cast<int>(state().clients.size());
}

// Whether the servers let clients keep writes for later.
void mock_ceph_buffer(bool on) {
  let(ceph::may_buffer, on);
}

// How many bytes the longest write since the last call of this had.
std::int64_t mock_ceph_longest_write() {
  const std::lock_guard lock(state().mutex);
  return std::exchange(state().written, 0);
}

// From now on, the servers refuse reads of the clients that there are.
void mock_ceph_evict() {
  const std::lock_guard lock(state().mutex);
  for (ceph::Client* client : state().clients)
    client->is_evicted = true;
}

// From now on, reads sleep until their file's status is asked for, as some do in the real one.
void mock_ceph_forget(bool on) {
  const std::lock_guard lock(state().mutex);
  state().forgets = on;
  state().changed.notify_all();
}

// As the real one does where a file grows while it is read.
void mock_ceph_lose_head(std::int64_t bytes) {
  state().lost_head = bytes;
}

// How many reads sleep because they were forgotten.
int mock_ceph_sleeping() {
  const std::lock_guard lock(state().mutex);
  return state().sleeping;
}

// From now on, the servers let clients cache files, or do not.
void mock_ceph_let_cache(bool on) {
  let(ceph::may_cache, on);
}

// From now on, reads that reach beyond this offset fail.
void mock_ceph_bad_from(std::int64_t offset) {
  const std::lock_guard lock(state().mutex);
  state().bad_from = offset;
}

// From now on, it keeps what a read has fetched until another one fetches something. What is not
// there takes longer.
void mock_ceph_keep_reads(bool on) {
  const std::lock_guard lock(state().mutex);
  state().keeps = on;
  state().kept_from = state().kept_to = 0;
}

// What the longest read since the last such question asked for.
std::int64_t mock_ceph_longest_read() {
  const std::lock_guard lock(state().mutex);
  return std::exchange(state().longest_read, 0);
}

// How many reads there have been, and how often a client asked for its rights to a file.
int mock_ceph_reads() {
  const std::lock_guard lock(state().mutex);
  return state().reads;
}
int mock_ceph_rights_asked() {
  const std::lock_guard lock(state().mutex);
  return state().rights_asked;
}

// The stripe unit of all files; 0: it cannot be known.
void mock_ceph_stripe(int bytes) {
  const std::lock_guard lock(state().mutex);
  state().stripe_bytes = bytes;
}

// The number of the file that was opened last.
int mock_ceph_last_number() {
  const std::lock_guard lock(state().mutex);
  return state().last_number;
}

// How often that file's status was asked for.
int mock_ceph_asked(int number) {
  const std::lock_guard lock(state().mutex);
  return state().asked[number];
}

// Closes of files that were not open and questions about such, and ends of clients that had some,
// so far.
int mock_ceph_mistakes() {
  const std::lock_guard lock(state().mutex);
  return state().mistakes;
}

int ceph_create(ceph::Client** mount, const char*) {
  return fallible("ceph_create", ceph_error, [&]() -> int {
    *mount = new ceph::Client;
    const std::lock_guard lock(state().mutex);
    state().clients.insert(*mount);
    return 0;
  });
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
  return fallible("ceph_mount", ceph_error, [&]() -> int { return 0; });
}

int ceph_unmount(ceph::Client*) {
  return fallible("ceph_unmount", ceph_error, [&]() -> int { return 0; });
}

int ceph_release(ceph::Client* mount) {
  const std::lock_guard lock(state().mutex);
  if (mount->files != 0) ++state().mistakes;
  state().clients.erase(mount);
  delete mount;
  return 0;
}

mode_t ceph_umask(ceph::Client*, mode_t) {
  return 0;
}

int ceph_open(ceph::Client* mount, const char* path, int flags, mode_t mode) {
  return fallible("ceph_open", ceph_error, [&]() -> int {
    const int descriptor = open(at(mount, path).c_str(), flags | O_CLOEXEC, mode);
    if (descriptor < 0) return -errno;
    const std::lock_guard lock(state().mutex);
    ++mount->files;
    state().descriptors[++state().last_number] = descriptor;
    return state().last_number;
  });
}

int ceph_open_layout(ceph::Client*, const char*, int, mode_t, int, int, int, const char*) {
  return -EOPNOTSUPP;
}

int ceph_close(ceph::Client* mount, int number) {
  return fallible("ceph_close", ceph_error, [&]() -> int {
    const std::lock_guard lock(state().mutex);
    const auto found = state().descriptors.find(number);
    if (found == state().descriptors.end()) {
      ++state().mistakes;
      return -EBADF;
    }
    const int descriptor = found->second;
    state().descriptors.erase(found);
    --mount->files;
    return or_error(close(descriptor));
  });
}

int ceph_read(ceph::Client* mount, int number, char* memory, std::int64_t bytes,
              std::int64_t offset) {
  return fallible("ceph_read", ceph_error, [&]() -> int {
    if (is_evicted(mount)) return -ESHUTDOWN;
    sleep_if_forgotten(number);
    if (reaches_bad_bytes(bytes, offset)) return -EIO;
    fetch(bytes, offset);
    const std::int64_t lost = std::min(state().lost_head.exchange(0), bytes);
    return static_cast<int>(
        or_error(pread(descriptor_of(number), memory, moved(static_cast<std::size_t>(bytes - lost)),
                       offset + lost)));
  });
}

int ceph_debug_get_fd_caps(ceph::Client*, int number) {
  if (descriptor_of(number) < 0) return -EBADF;
  const std::lock_guard lock(state().mutex);
  ++state().rights_asked;
  return state().rights;
}

int ceph_write(ceph::Client*, int number, const char* memory, std::int64_t bytes,
               std::int64_t offset) {
  return fallible("ceph_write", ceph_error, [&]() -> int {
    {
      const std::lock_guard lock(state().mutex);
      state().written = std::max(state().written, bytes);
    }
    return static_cast<int>(or_error(
        pwrite(descriptor_of(number), memory, moved(static_cast<std::size_t>(bytes)), offset)));
  });
}

int ceph_fsync(ceph::Client*, int number, int) {
  return fallible("ceph_fsync", ceph_error,
                  [&]() -> int { return or_error(fsync(descriptor_of(number))); });
}

int ceph_lazyio_synchronize(ceph::Client*, int, std::int64_t, std::size_t) {
  return 0;
}

int ceph_ftruncate(ceph::Client*, int number, std::int64_t bytes) {
  return fallible("ceph_ftruncate", ceph_error,
                  [&]() -> int { return or_error(ftruncate(descriptor_of(number), bytes)); });
}

int ceph_fstatx(ceph::Client*, int number, ceph::Statx* found, unsigned, unsigned) {
  return fallible("ceph_fstatx", ceph_error, [&]() -> int {
    {
      const std::lock_guard lock(state().mutex);
      if (!state().descriptors.contains(number)) ++state().mistakes;
      ++state().asked[number];
      state().changed.notify_all();
    }
    return fill_from(descriptor_of(number), "", AT_EMPTY_PATH, found);
  });
}

int ceph_statx(ceph::Client* mount, const char* path, ceph::Statx* found, unsigned,
               unsigned flags) {
  return fallible("ceph_statx", ceph_error, [&]() -> int {
    const int how = static_cast<int>(flags) & AT_SYMLINK_NOFOLLOW;
    return fill_from(AT_FDCWD, at(mount, path).c_str(), how, found);
  });
}

int ceph_setattrx(ceph::Client* mount, const char* path, ceph::Statx* to, int wanted, int) {
  return fallible("ceph_setattrx", ceph_error, [&]() -> int {
    const std::string where = at(mount, path);
    const auto has = [&](int member) { return (wanted & member) != 0; };
    const timespec times[2] = {has(ceph::set_accessed) ? to->accessed : timespec{0, UTIME_OMIT},
                               has(ceph::set_modified) ? to->modified : timespec{0, UTIME_OMIT}};
    if (has(ceph::set_mode) && chmod(where.c_str(), to->mode) != 0) return -errno;
    return or_error(utimensat(AT_FDCWD, where.c_str(), times, 0));
  });
}

int ceph_unlink(ceph::Client* mount, const char* path) {
  return fallible("ceph_unlink", ceph_error,
                  [&]() -> int { return or_error(unlink(at(mount, path).c_str())); });
}

int ceph_rename(ceph::Client* mount, const char* from, const char* to) {
  return fallible("ceph_rename", ceph_error, [&]() -> int {
    return or_error(rename(at(mount, from).c_str(), at(mount, to).c_str()));
  });
}

int ceph_link(ceph::Client* mount, const char* from, const char* to) {
  return or_error(linkat(AT_FDCWD, at(mount, from).c_str(), AT_FDCWD, at(mount, to).c_str(),
                         AT_SYMLINK_FOLLOW));
}

int ceph_symlink(ceph::Client* mount, const char* text, const char* path) {
  return or_error(symlink(text, at(mount, path).c_str()));
}

int ceph_readlink(ceph::Client* mount, const char* path, char* text, std::int64_t size) {
  return or_error(
      static_cast<int>(readlink(at(mount, path).c_str(), text, static_cast<std::size_t>(size))));
}

int ceph_mkdir(ceph::Client* mount, const char* path, mode_t mode) {
  return fallible("ceph_mkdir", ceph_error,
                  [&]() -> int { return or_error(mkdir(at(mount, path).c_str(), mode)); });
}

int ceph_rmdir(ceph::Client* mount, const char* path) {
  return fallible("ceph_rmdir", ceph_error,
                  [&]() -> int { return or_error(rmdir(at(mount, path).c_str())); });
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

int ceph_get_file_layout(ceph::Client*, int, int* stripe_bytes, int* stripe_count,
                         int* object_bytes, int* pool) {
  const std::lock_guard lock(state().mutex);
  if (state().stripe_bytes == 0) return -EOPNOTSUPP;
  *stripe_bytes = state().stripe_bytes;
  *stripe_count = 1;
  *object_bytes = 1 << 22;
  *pool = 1;
  return 0;
}

int ceph_get_pool_name(ceph::Client*, int, char* name, std::size_t bytes) {
  return std::snprintf(name, bytes, "data");
}

}  // extern "C"
