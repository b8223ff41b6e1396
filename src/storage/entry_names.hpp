// Checks the names that a server returns for a directory's entries.
#pragma once

#include <string_view>

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

}  // namespace ferry::storage
