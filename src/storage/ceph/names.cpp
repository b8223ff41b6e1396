// Names and directories of CephFS. Path checks that system calls make and libcephfs does not: it
// drops a slash at the end, takes "." and ".." for names, and checks permissions before whether a
// path leads through a directory.
#include <algorithm>
#include <cerrno>
#include <climits>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "storage/ceph/call.hpp"
#include "storage/entry_names.hpp"

namespace ferry::storage {
namespace {

// The folder of the last name of `path`.
std::string folder_of(const std::string& path) {
  const std::string name = without_slash(path);
  return name.substr(0, std::max<std::size_t>(name.rfind('/'), 1));
}

}  // namespace

// -ENOTDIR instead of -EACCES if `path` leads through a file.
int CephCall::explained(CephMount& mount, const std::string& path, int error) {
  int result = error;
  for (std::string at = path; result == -EACCES && at != "/";) {
    at = folder_of(at);
    Status status;
    result = status_of(mount, status, at.c_str());
    if (result == 0 && !S_ISDIR(status.mode)) return -ENOTDIR;
  }
  return error;
}

int CephCall::refusal_of_name(CephMount& mount, const std::string& path) {
  const LastName last_name(path);
  if (kind_ == Kind::make_link) return last_name.refusal_of_link();
  const bool makes = kind_ == Kind::open && (flags_ & O_CREAT) != 0;
  const bool changes_names = kind_ == Kind::unlink || kind_ == Kind::rename || makes ||
                             kind_ == Kind::make_directory || kind_ == Kind::remove_directory;
  if (!last_name.wants_directory()) return 0;
  const bool of_link = changes_names && !last_name.is_none();
  Status status;
  const int error = status_of(mount, status, path.c_str(), of_link ? AT_SYMLINK_NOFOLLOW : 0);
  if (makes && !last_name.is_none())
    return error == 0 || error == -ENOENT ? -EISDIR : explained(mount, path, error);
  if (kind_ == Kind::make_directory && !last_name.is_none()) return 0;
  if (error != 0) return explained(mount, path, error);
  if (!S_ISDIR(status.mode)) return -ENOTDIR;
  return changes_names ? last_name.refusal(kind_, flags_) : 0;
}

// Two renames must not reach the library: of a missing name, after which it answers no call about
// either name for half a minute, and of a name to itself, after which it takes the name for
// missing.
int CephCall::rename(CephMount& mount, const std::string& path, const std::string& new_path) {
  const LastName last_name(new_path);
  Status from;
  Status to;
  int error = explained(mount, path, status_of(mount, from, path.c_str(), AT_SYMLINK_NOFOLLOW));
  if (error != 0) return error;
  const unsigned of_link = last_name.is_none() ? 0 : AT_SYMLINK_NOFOLLOW;
  error = explained(mount, new_path, status_of(mount, to, new_path.c_str(), of_link));
  if (error != 0 && error != -ENOENT) return error;
  if (last_name.is_none()) return error != 0 ? error : last_name.refusal(kind_);
  if (last_name.has_slash_behind && !S_ISDIR(from.mode)) return -ENOTDIR;
  if (error == 0 && from.inode == to.inode) return 0;  // also two names of one file
  return mount.library().ceph_rename(mount.get(), path.c_str(), new_path.c_str());
}

int CephCall::read_link(CephMount& mount, const std::string& path) {
  char found[PATH_MAX];
  const int bytes = mount.library().ceph_readlink(mount.get(), path.c_str(), found, sizeof found);
  if (bytes < 0) return bytes;
  touch([&](Operation& operation) {
    operation.text->assign(found, static_cast<std::size_t>(bytes));
  });
  return 0;
}

int CephCall::make_link(CephMount& mount, const std::string& path) {
  if (text_.empty()) return -ENOENT;
  if (text_.size() >= PATH_MAX) return -ENAMETOOLONG;
  return mount.library().ceph_symlink(mount.get(), text_.c_str(), path.c_str());
}

int CephCall::add_name(CephMount& mount, const std::string& path, const std::string& new_path) {
  Status from;
  int error = explained(mount, path, status_of(mount, from, path.c_str(), AT_SYMLINK_NOFOLLOW));
  if (error == 0) error = LastName(new_path).refusal_of_link();
  if (error != 0) return error;
  // The library would give the name of a link to what it leads to.
  if (S_ISDIR(from.mode) || S_ISLNK(from.mode)) return -EPERM;
  error = mount.library().ceph_link(mount.get(), path.c_str(), new_path.c_str());
  return explained(mount, new_path, error);
}

int CephCall::list_directory(CephMount& mount, const std::string& path) {
  const CephLibrary& library = mount.library();
  ceph::Directory* directory = nullptr;
  if (const int error = library.ceph_opendir(mount.get(), path.c_str(), &directory); error != 0) {
    return error;
  }
  std::vector<DirectoryEntry> found;
  int result = 0;
  for (;;) {
    dirent next{};
    ceph::Statx status;
    result = library.ceph_readdirplus_r(mount.get(), directory, &next, &status, ceph::basic_members,
                                        AT_SYMLINK_NOFOLLOW, nullptr);
    if (result <= 0) break;
    const std::string_view name = next.d_name;
    if (is_dot_name(name)) continue;
    if (!is_entry_name(name)) {
      result = -EIO;
      break;
    }
    found.push_back({std::string(name), {}});
    if (S_ISREG(status.mode)) {
      // Attributes returned with the name may be older than another client's latest writes.
      const std::string one = path + '/' + found.back().name;
      const int error = library.ceph_statx(mount.get(), one.c_str(), &status, ceph::basic_members,
                                           AT_SYMLINK_NOFOLLOW);
      if (error == -ENOENT) {
        found.pop_back();  // removed meanwhile
        continue;
      }
      if (error != 0) {
        result = error;
        break;
      }
    }
    found.back().status = to_status(status, mount.address());
    found.back().status.version = 0;  // not asked for
  }
  library.ceph_closedir(mount.get(), directory);
  if (result < 0) return result;
  touch([&](Operation& operation) {
    std::move(found.begin(), found.end(), std::back_inserter(*operation.entries));
  });
  return 0;
}

}  // namespace ferry::storage
