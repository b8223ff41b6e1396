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

// Where the kernel's client is asked; the tests have places of their own.
struct LustrePlaces {
  std::string attribute = "lustre.lov";
  // The folders with its parameters, and the name of the file system; empty: as it is mounted.
  std::vector<std::string> parameters = {"/sys/fs/lustre/lov", "/proc/fs/lustre/lov"};
  std::string name;
};

// Thread-safe. Its functions return 0 or a negative errno: -EINVAL for a layout that cannot be,
// -EOPNOTSUPP where the file system does not take layouts this way.
class LustreLayouts {
 public:
  explicit LustreLayouts(std::string library, LustrePlaces places = {})
      : library_name_(std::move(library)), places_(std::move(places)) {}

  // As granted; of a directory: what is made in it gets.
  int get(const std::string& path, Layout& layout) const;
  // Looks at what the directory has afterwards: without Layout::at_most, it is what was asked for.
  int set(const std::string& directory, const Layout& layout);
  // Makes the empty file `path` with O_EXCL, and looks at what was granted: without
  // Layout::at_most, less than was asked for is refused.
  int make(const std::string& path, std::uint32_t mode, const Layout& layout);
  // Empty, or why the library is not used.
  std::string without_library();

 private:
  // Null: it is not there.
  const LustreLibrary* library();
  // 0, or -EINVAL for a layout with less than was asked for.
  int is_granted(const std::string& path, const Layout& asked) const;

  const std::string library_name_;
  const LustrePlaces places_;
  std::mutex mutex_;  // guards the next three
  bool tried_ = false;
  std::unique_ptr<const LustreLibrary> library_;
  std::string reason_;
};

}  // namespace ferry::storage
