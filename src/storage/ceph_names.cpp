// What the system calls ask of a path and libcephfs does not: it drops a slash at the end, and
// takes
// "." and ".." for names.
#include <cerrno>
#include <string>

#include <fcntl.h>
#include <sys/stat.h>

#include "storage/ceph_call.hpp"
#include "storage/last_name.hpp"

namespace ferry::storage {

int CephCall::refusal_of_name(CephMount& mount, const std::string& path) {
  const LastName last_name(path);
  const bool makes = kind_ == Kind::open && (flags_ & O_CREAT) != 0;
  const bool changes_names = kind_ == Kind::unlink || kind_ == Kind::rename || makes ||
                             kind_ == Kind::make_directory || kind_ == Kind::remove_directory;
  if (!last_name.wants_directory()) return 0;
  const bool of_link = changes_names && !last_name.is_none();
  Status status;
  const int error = status_of(mount, status, path.c_str(), of_link ? AT_SYMLINK_NOFOLLOW : 0);
  if (makes && !last_name.is_none()) return error == 0 || error == -ENOENT ? -EISDIR : error;
  if (kind_ == Kind::make_directory && !last_name.is_none()) return 0;
  if (error != 0) return error;
  if (!S_ISDIR(status.mode)) return -ENOTDIR;
  return changes_names ? last_name.refusal(kind_, flags_) : 0;
}

int CephCall::refusal_of_rename(CephMount& mount, const std::string& path,
                                const std::string& new_path) {
  const LastName last_name(new_path);
  if (!last_name.wants_directory()) return 0;
  Status status;
  if (last_name.is_none()) {
    const int error = status_of(mount, status, new_path.c_str());
    return error != 0 ? error : last_name.refusal(kind_);
  }
  const int error = status_of(mount, status, path.c_str(), AT_SYMLINK_NOFOLLOW);
  if (error != 0) return error;
  return S_ISDIR(status.mode) ? 0 : -ENOTDIR;
}

}  // namespace ferry::storage
