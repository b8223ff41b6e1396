// Layouts of files on a mounted Lustre. Reads them from its client's attribute, and sets them
// through liblustreapi, loaded on first use, or without it through the client.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "storage/layout.hpp"
#include "storage/lustre/library.hpp"

namespace ferry::storage {

// Where to ask the kernel's client; tests replace these.
struct LustrePlaces {
  std::string attribute = "lustre.lov";
  // The folders with its parameters, and the name of the file system; empty: from the mount.
  std::vector<std::string> parameters = {"/sys/fs/lustre/lov", "/proc/fs/lustre/lov"};
  std::string name;
};

// Thread-safe. Functions return 0 or a negative errno: -EINVAL for an impossible layout,
// -EOPNOTSUPP if the file system does not take layouts this way.
class LustreLayouts {
 public:
  explicit LustreLayouts(std::string library, LustrePlaces places = {})
      : library_name_(std::move(library)), places_(std::move(places)) {}

  // As granted; for a directory: the layout of new files.
  int get(const std::string& path, Layout& layout) const;
  // Checks the directory afterwards: without Layout::at_most, it has what was requested.
  int set(const std::string& directory, const Layout& layout);
  // Makes the empty file `path` with O_EXCL, and checks what was granted: without Layout::at_most,
  // less than requested is refused.
  int make(const std::string& path, std::uint32_t mode, const Layout& layout);
  // Empty, or why the library is not used.
  std::string without_library();

 private:
  // Null: it is not installed.
  const LustreLibrary* library();
  // 0, or -EINVAL for a layout with less than requested.
  int is_granted(const std::string& path, const Layout& asked) const;

  const std::string library_name_;
  const LustrePlaces places_;
  std::mutex mutex_;  // guards the next three
  bool tried_ = false;
  std::unique_ptr<const LustreLibrary> library_;
  std::string reason_;
};

}  // namespace ferry::storage
