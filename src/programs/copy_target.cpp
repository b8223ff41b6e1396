#include "programs/copy_target.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <stdexcept>
#include <tuple>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <ferry/error.hpp>

#include "base/mounts.hpp"
#include "storage/uri.hpp"

namespace ferry::bench {
namespace {

using storage::checked;
using storage::Kind;
using storage::Scheme;
using storage::SyncFile;

// The folder of a path's last name.
struct Name {
  explicit Name(const std::string& path) : end(storage::path_end(path)) {
    const std::size_t slash = path.rfind('/', end == 0 ? 0 : end - 1);
    begin = slash == std::string::npos ? 0 : slash + 1;
  }
  std::string in(const std::string& path) const { return path.substr(begin, end - begin); }
  std::size_t begin = 0;
  std::size_t end;
};

// Two servers may use the same file numbers.
bool same_place(const std::string& one, const std::string& other) {
  const Scheme scheme = storage::scheme_of(one);
  if (scheme != storage::scheme_of(other)) return false;
  if (scheme == Scheme::posix) return true;
  try {
    const storage::Uri first = storage::parse_uri(one);
    const storage::Uri second = storage::parse_uri(other);
    return std::tie(first.host, first.port, first.query) ==
           std::tie(second.host, second.port, second.query);
  } catch (const std::invalid_argument&) {
    return false;
  }
}

// The access control list, where a file has one.
constexpr const char* acl_name = "system.posix_acl_access";

// A mount point cannot be replaced by renaming, like some files in containers.
bool is_mount_point(const std::string& path) {
  if (storage::scheme_of(path) != Scheme::posix) return false;
  char real[PATH_MAX];
  if (::realpath(path.c_str(), real) == nullptr) return false;
  const std::vector<Mount> mounts = read_mounts();
  return std::any_of(mounts.begin(), mounts.end(),
                     [&](const Mount& mount) { return mount.point == real; });
}

Error dangling(const std::string& path) {
  return {ENOENT, path + " is a dangling symbolic link"};
}

}  // namespace

// Those who look whether it is held hold it for a moment.
void CopyTarget::Lock::take(int descriptor) {
  if (descriptor < 0) return;
  ::flock(descriptor, LOCK_EX);
  descriptor_ = ::fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
}

void CopyTarget::Lock::release() {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

// Whether the path's last name, which exists, is a symbolic link.
bool CopyTarget::is_link(const std::string& path) {
  if (storage::scheme_of(path) == Scheme::posix) {
    struct stat status {};
    return ::lstat(path.c_str(), &status) == 0 && S_ISLNK(status.st_mode);
  }
  // Other storages report it only when they list a directory.
  const Name name(path);
  const std::string folder = path.substr(0, name.begin) + path.substr(name.end);
  std::vector<storage::DirectoryEntry> entries;
  if (calls_.run({.kind = Kind::list_directory, .path = folder.c_str(), .entries = &entries}) < 0)
    return false;
  const std::string wanted = name.in(path);
  return std::any_of(entries.begin(), entries.end(), [&](const storage::DirectoryEntry& entry) {
    return entry.name == wanted && S_ISLNK(entry.status.mode);
  });
}

void CopyTarget::look() {
  storage::Operation look{.kind = Kind::path_status, .path = to_.c_str()};
  const std::int64_t result = calls_.run(look);
  if (result != -ENOENT) checked(result, to_);
  status_ = look.status;
  exists_ = result == 0;
}

void CopyTarget::choose(const storage::Status& source) {
  look();
  if (exists_ && S_ISDIR(status_.mode)) {  // into it, under the source's name
    const Name from(options_.from);
    const std::size_t end = storage::path_end(to_);
    to_.insert(end, (to_[end - 1] == '/' ? "" : "/") + from.in(options_.from));
    look();
  }
  if (!exists_) {
    if (storage::scheme_of(to_) == Scheme::posix && is_link(to_)) throw dangling(to_);
    return;
  }
  refuse_kind(source);
  if (!options_.overwrite) throw Error(EEXIST, to_);
  follow_link();
  check_writable();
  refuse_kind(source);
}

void CopyTarget::refuse_kind(const storage::Status& source) const {
  if (S_ISDIR(status_.mode)) throw Error(EISDIR, to_);
  if (!S_ISREG(status_.mode)) throw not_a_regular_file(to_);
  if (is_the_source(source)) {
    throw CopyRefusal(options_.from + " and " + to_ + " are the same file; name another DST");
  }
}

// Like cp: does not replace a read-only file either. Checks the opened file again, because a link
// may have changed meanwhile.
void CopyTarget::check_writable() {
  SyncFile file(calls_);
  checked(file.open(to_, O_WRONLY), to_);
  checked(file.status(status_), to_);
  checked(file.close(), to_);
}

bool CopyTarget::is_the_source(const storage::Status& source) const {
  return source.inode != 0 && source.inode == status_.inode && source.device == status_.device &&
         same_place(options_.from, to_);
}

// Keeps the link, which then leads to the copy.
void CopyTarget::follow_link() {
  if (!is_link(to_)) return;
  if (storage::scheme_of(to_) != Scheme::posix) {
    in_place_ = true;
    return;
  }
  char path[PATH_MAX];
  if (::realpath(to_.c_str(), path) == nullptr) throw Error(errno, to_);
  to_ = path;
}

// Gives the new file the old one's mode and access control list. Without the list, its mask would
// become the group's permissions. Returns false if this is impossible.
bool CopyTarget::keep_permissions() {
  const int fd = file_.get()->descriptor();
  if (fd < 0) return true;
  std::vector<char> list(64 << 10);  // as long as attributes get
  const ssize_t bytes = ::getxattr(to_.c_str(), acl_name, list.data(), list.size());
  if (bytes >= 0) {
    return ::fsetxattr(fd, acl_name, list.data(), static_cast<std::size_t>(bytes), 0) == 0;
  }
  if (errno != ENODATA && errno != ENOTSUP) return false;
  // It may have inherited the folder's.
  if (::fremovexattr(fd, acl_name) != 0 && errno != ENODATA && errno != ENOTSUP) return false;
  return ::fchmod(fd, status_.mode & 0777) == 0;
}

void CopyTarget::open(const storage::Status& source) {
  // The owner can read it back with any permissions. Like cp, drops privileges.
  std::uint32_t wanted = exists_ ? status_.mode : source.mode & ~options_.umask;
  if (exists_ && storage::scheme_of(to_) == Scheme::posix)
    wanted = 0;  // keep_permissions() follows
  if (exists_ && (status_.links > 1 || is_mount_point(to_))) in_place_ = true;
  if (!in_place_ && !open_scratch((wanted & 0777) | 0600)) in_place_ = true;
  if (in_place_) open_in_place();
}

// A free name in the destination's folder. Returns false if an existing destination can only be
// overwritten in place.
bool CopyTarget::open_scratch(std::uint32_t mode) {
  const Name name(to_);
  std::random_device random;
  const std::string path =
      to_.substr(0, name.begin) + ".ferry-cp-" + std::to_string(random()) + to_.substr(name.end);
  if (options_.scratch) options_.scratch(path);
  const std::int64_t error = file_.open(path, O_RDWR | O_CREAT | O_EXCL, mode);
  if (exists_ && (error == -EACCES || error == -EPERM)) return false;
  // An unanswered request may have created it.
  if (error == 0 || error == -ETIMEDOUT) scratch_ = path;
  checked(error, to_);  // the other name is ours only
  lock_.take(file_.get()->descriptor());
  if (!exists_ || (is_owned_alike() && keep_permissions())) return true;
  file_.close();
  checked(calls_.run({.kind = Kind::unlink, .path = scratch_.c_str()}), to_);
  scratch_.clear();
  lock_.release();
  return false;
}

bool CopyTarget::is_owned_alike() {
  storage::Status made;
  checked(file_.status(made), to_);
  return made.owner == status_.owner && made.group == status_.group;
}

// Not truncated: if the source is this file by another path, its data must survive.
void CopyTarget::open_in_place() {
  checked(file_.open(to_, O_RDWR), to_);
  if (options_.in_place) options_.in_place(to_);
  touched_ = true;
}

void CopyTarget::trim(std::uint64_t bytes) {
  if (in_place_) checked(file_.truncate(bytes), to_);
}

// Atomically, so that no empty file ever has that name: by a rename that refuses to replace, else
// by a second name. Returns false if the name is taken, or the storage can do neither.
bool CopyTarget::take_name() {
  if (storage::scheme_of(to_) == Scheme::posix &&
      ::renameat2(AT_FDCWD, scratch_.c_str(), AT_FDCWD, to_.c_str(), RENAME_NOREPLACE) == 0)
    return true;
  const std::int64_t error =
      calls_.run({.kind = Kind::add_name, .path = scratch_.c_str(), .new_path = to_.c_str()});
  if (error == -ETIMEDOUT) checked(error, to_);  // it may arrive yet
  if (error != 0) return false;
  calls_.run({.kind = Kind::unlink, .path = scratch_.c_str()});
  return true;
}

// Does not replace a file made meanwhile, nor a dangling link.
void CopyTarget::reserve() {
  SyncFile made(calls_);
  const std::int64_t error = made.open(to_, O_WRONLY | O_CREAT | O_EXCL, 0600);
  if (error == -EEXIST) {
    look();
    if (!exists_) throw dangling(to_);
    if (options_.overwrite && S_ISREG(status_.mode)) return;
  }
  checked(error, to_);
  reserved_ = true;
}

void CopyTarget::publish(std::uint64_t bytes) {
  storage::Status made;
  checked(file_.status(made), to_);
  if (made.size_bytes != bytes) {
    throw Error(EBADMSG, to_ + " has " + std::to_string(made.size_bytes) + " bytes instead of " +
                             std::to_string(bytes));
  }
  checked(file_.close(), to_);
  touched_ = false;
  if (in_place_) return;
  if (exists_ || !take_name()) {
    if (!exists_) reserve();
    checked(calls_.run({.kind = Kind::rename, .path = scratch_.c_str(), .new_path = to_.c_str()}),
            to_);
  }
  scratch_.clear();
  lock_.release();
  reserved_ = false;
  make_name_durable();
}

// Servers store a change of names before they answer it.
void CopyTarget::make_name_durable() {
  if (storage::scheme_of(to_) != Scheme::posix) return;
  const std::size_t end = Name(to_).begin;
  const std::string folder = end == 0 ? "." : to_.substr(0, end);
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0 && errno == EACCES) return;  // a folder may be written and not be read
  const int error = fd >= 0 && ::fsync(fd) == 0 ? 0 : errno;
  if (fd >= 0) ::close(fd);
  if (error != 0 && error != EINVAL && error != ENOTSUP) throw Error(error, "syncing " + folder);
}

Remains CopyTarget::give_up() {
  Remains remains;
  if (touched_) remains.incomplete = to_;
  if (file_.is_open()) file_.close();
  if (!scratch_.empty()) {
    const std::int64_t result = calls_.run({.kind = Kind::unlink, .path = scratch_.c_str()});
    if (result < 0 && result != -ENOENT) remains.scratch = scratch_;
    scratch_.clear();
  }
  if (reserved_) calls_.run({.kind = Kind::unlink, .path = to_.c_str()});
  touched_ = reserved_ = false;
  return remains;
}

}  // namespace ferry::bench
