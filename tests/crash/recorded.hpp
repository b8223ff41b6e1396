// What a recording holds, of a storage or of a file system, and what a crash leaves of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

namespace ferry::test {

// One change of a file or a name, or a sync. Folders are files, too.
struct Recorded {
  enum class What : std::uint8_t { write, truncate, create, link, rename, unlink, sync };
  static constexpr std::size_t no_folder = SIZE_MAX;  // names are not secured by folders

  What what = What::write;
  std::size_t file = 0;      // in the order in which they came to be
  std::uint64_t offset = 0;  // of a truncation: the new size
  std::string data = {};
  std::string name = {};  // create, link, unlink, and the old one of a rename
  std::string new_name = {};
  bool durable = false;            // a write by a handle with O_DSYNC
  std::uint64_t asked = 0;         // when it was asked for
  std::uint64_t answered = 0;      // when who asked had the answer; 0: never
  std::size_t folder = no_folder;  // of the name, after a rename of the new one
  bool is_folder = false;

  bool changes_names() const {
    return what == What::create || what == What::link || what == What::rename ||
           what == What::unlink;
  }
};

// The names that are there after a crash, and what is under them. Those of folders end with a
// slash.
using FoundFiles = std::map<std::string, std::string, std::less<>>;

}  // namespace ferry::test
