// Layouts of files on Lustre as it is mounted: by liblustreapi, loaded when it is first needed, or
// where it is not there by the kernel's client itself.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>

#include "storage/layout.hpp"
#include "storage/lustre_library.hpp"

namespace ferry::storage {

// Thread-safe. Its functions return 0 or a negative errno: -EINVAL for a layout that cannot be,
// -EOPNOTSUPP where the file system does not take layouts this way.
class LustreLayouts {
 public:
  explicit LustreLayouts(std::string library) : library_name_(std::move(library)) {}

  // As granted; of a directory: what is made in it gets.
  int get(const std::string& path, Layout& layout);
  int set(const std::string& directory, const Layout& layout);
  // Makes the empty file `path` with O_EXCL, and looks at what was granted: without
  // Layout::at_most, less than was asked for is refused.
  int make(const std::string& path, std::uint32_t mode, const Layout& layout);
  // Empty, or why the library is not used.
  std::string without_library();

 private:
  // Null: it is not there.
  const LustreLibrary* library();

  const std::string library_name_;
  std::mutex mutex_;  // guards the next three
  bool tried_ = false;
  std::unique_ptr<const LustreLibrary> library_;
  std::string reason_;
};

}  // namespace ferry::storage
