// Checks of names: those that a server returns for a directory's entries, and the last one of a
// path.
#pragma once

#include <cerrno>
#include <string>
#include <string_view>

#include <fcntl.h>

#include "storage/storage.hpp"

namespace ferry::storage {

// "." and "..", which listings leave away.
inline bool is_dot_name(std::string_view name) {
  return name == "." || name == "..";
}

// Whether it names something inside the directory. Joined to the directory's path, other names
// would lead outside: a listing with such a name fails with EIO, as in Linux.
inline bool is_entry_name(std::string_view name) {
  using namespace std::string_view_literals;
  return !name.empty() && !is_dot_name(name) && name.find_first_of("/\0"sv) == name.npos;
}

// The last name of a path, and the errors that system calls derive from its text alone. For
// storages whose libraries do not check it.
struct LastName {
  explicit LastName(const std::string& path) {
    const std::size_t end = path.find_last_not_of('/');
    if (end == std::string::npos) return;  // the root
    const std::size_t slash = path.rfind('/', end);
    const std::size_t begin = slash == std::string::npos ? 0 : slash + 1;
    text = path.substr(begin, end + 1 - begin);
    has_slash_behind = end + 1 < path.size();
  }

  // It has no proper name: the root, "." or "..".
  bool is_none() const { return text.empty() || is_dot_name(text); }
  // It must name a directory.
  bool wants_directory() const { return has_slash_behind || is_none(); }
  // 0, or the negative errno of a call that makes, removes or renames a name that is none.
  int refusal(Kind kind, int flags = 0) const {
    if (!is_none()) return 0;
    switch (kind) {
      case Kind::open:
        return (flags & O_EXCL) != 0 ? -EEXIST : -EISDIR;
      case Kind::unlink:
        return -EISDIR;
      case Kind::make_directory:
        return -EEXIST;
      case Kind::remove_directory:
        return text == "." ? -EINVAL : text == ".." ? -ENOTEMPTY : -EBUSY;
      default:
        return -EBUSY;
    }
  }

  // The same for a new link, which is no directory.
  int refusal_of_link() const { return !wants_directory() ? 0 : is_none() ? -EEXIST : -ENOENT; }

  std::string text;
  bool has_slash_behind = false;
};

// For creating or replacing a name that says it is a directory.
inline std::string without_slash(std::string path) {
  while (path.size() > 1 && path.back() == '/')
    path.pop_back();
  return path;
}

}  // namespace ferry::storage
