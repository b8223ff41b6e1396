#include "storage/lustre_layouts.hpp"

#include <array>
#include <cerrno>
#include <stdexcept>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "storage/lustre_attribute.hpp"

namespace ferry::storage {
namespace {

// Both say that the file system is another one.
int error_of_client() {
  return errno == ENOTTY || errno == ENOTSUP ? -EOPNOTSUPP : -errno;
}

// ---- by the library
// ------------------------------------------------------------------------------

class OwnedLayout {
 public:
  OwnedLayout(const LustreLibrary& library, LustreLayout* layout)
      : library_(library), layout_(layout) {}
  ~OwnedLayout() {
    if (layout_ != nullptr) library_.free(layout_);
  }
  OwnedLayout(const OwnedLayout&) = delete;
  OwnedLayout& operator=(const OwnedLayout&) = delete;
  LustreLayout* get() const { return layout_; }

 private:
  const LustreLibrary& library_;
  LustreLayout* const layout_;
};

// The current component. False with errno.
bool read_component(const LustreLibrary& library, LustreLayout* from, Layout& layout) {
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
  std::uint64_t pattern = 0;
  std::array<char, 64> pool{};
  if (library.stripe_size_get(from, &bytes) != 0) return false;
  if (library.stripe_count_get(from, &count) != 0) return false;
  if (library.pattern_get(from, &pattern) != 0) return false;
  if (library.pool_name_get(from, pool.data(), pool.size()) < 0) return false;
  if (bytes < lustre_default) layout.stripe_bytes = bytes;
  if (count < lustre_default) layout.stripe_count = static_cast<std::uint32_t>(count);
  if (count >= lustre_all_servers) layout.extras[all_servers_name] = 1;
  if (pattern == lustre_overstriping) layout.extras[overstriping_name] = 1;
  layout.pool = pool.data();
  // Of a directory, and of a part that nothing was written to, there is none yet.
  std::uint64_t server = 0;
  if (library.ost_index_get(from, 0, &server) == 0 && server < lustre_default)
    layout.first_server = static_cast<std::int32_t>(server);
  return true;
}

int read_layout(const LustreLibrary& library, LustreLayout* from, Layout& layout) {
  Layout found;
  if (library.use(from, lustre_first) != 0 || !read_component(library, from, found)) return -errno;
  std::vector<LayoutPart> parts;
  int more = 0;
  do {
    Layout part;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
    if (library.extent_get(from, &begin, &end) != 0) return -errno;
    if (!read_component(library, from, part)) return -errno;
    parts.push_back(as_part(part, begin, end));
    more = library.use(from, lustre_next);
  } while (more == 0);
  if (more < 0) return -errno;
  if (parts.size() > 1) found.parts = std::move(parts);
  layout = std::move(found);
  return 0;
}

// A component may have the pool of the one before it. False with errno.
bool write_pool(const LustreLibrary& library, const std::string& pool, LustreLayout* to) {
  std::array<char, 64> inherited{};
  if (library.pool_name_get(to, inherited.data(), inherited.size()) < 0) return false;
  return pool == inherited.data() || library.pool_name_set(to, pool.c_str()) == 0;
}

// The current component. False with errno.
bool write_component(const LustreLibrary& library, const Layout& from, LustreLayout* to) {
  const std::uint64_t pattern =
      has_extra(from, overstriping_name) ? lustre_overstriping : lustre_raid0;
  const std::uint64_t bytes = from.stripe_bytes == 0 ? lustre_default : from.stripe_bytes;
  std::uint64_t count = from.stripe_count == 0 ? lustre_default : from.stripe_count;
  if (has_extra(from, all_servers_name)) count = lustre_all_servers;
  return library.pattern_set(to, pattern) == 0 && library.stripe_size_set(to, bytes) == 0 &&
         library.stripe_count_set(to, count) == 0 && write_pool(library, from.pool, to) &&
         (from.first_server < 0 ||
          library.ost_index_set(to, 0, static_cast<std::uint64_t>(from.first_server)) == 0);
}

// False with errno.
bool write_layout(const LustreLibrary& library, const Layout& from, LustreLayout* to) {
  if (from.parts.empty()) return write_component(library, from, to);
  for (const LayoutPart& part : from.parts) {
    if (part.begin_bytes > 0 && library.add(to) != 0) return false;
    if (library.extent_set(to, part.begin_bytes, part.end_bytes) != 0) return false;
    if (!write_component(library, as_layout(part), to)) return false;
  }
  return true;
}

int open_with(const LustreLibrary& library, const std::string& path, int flags, mode_t mode,
              const Layout& layout) {
  const OwnedLayout wanted(library, library.alloc());
  if (wanted.get() == nullptr) return -ENOMEM;
  if (!write_layout(library, layout, wanted.get())) return -errno;
  const int fd = library.file_open(path.c_str(), flags, mode, wanted.get());
  return fd < 0 ? error_of_client() : fd;
}

// ---- by the kernel
// -------------------------------------------------------------------------------

int open_with(const std::string& path, int flags, mode_t mode, const Layout& layout) {
  if (!layout.parts.empty()) return -EOPNOTSUPP;  // the ioctl takes plain ones
  const int fd = ::open(path.c_str(), flags | open_without_layout(), mode);
  if (fd < 0) return -errno;
  const std::vector<std::byte> request = stripes_request(layout);
  if (::ioctl(fd, set_stripes_number(), request.data()) == 0) return fd;
  const int error = error_of_client();
  ::close(fd);
  return error;
}

int get_by_attribute(const std::string& path, Layout& layout) {
  std::vector<std::byte> attribute(64 << 10);  // as long as attributes get
  const ssize_t bytes = ::getxattr(path.c_str(), "lustre.lov", attribute.data(), attribute.size());
  if (bytes < 0) return error_of_client();
  return layout_of_attribute({attribute.data(), static_cast<std::size_t>(bytes)}, layout);
}

}  // namespace

const LustreLibrary* LustreLayouts::library() {
  const std::lock_guard lock(mutex_);
  if (!std::exchange(tried_, true)) {
    try {
      library_ = std::make_unique<const LustreLibrary>(library_name_);
    } catch (const Unavailable& unavailable) {
      reason_ = unavailable.what();
    }
  }
  return library_.get();
}

std::string LustreLayouts::without_library() {
  library();
  const std::lock_guard lock(mutex_);
  return reason_;
}

int LustreLayouts::get(const std::string& path, Layout& layout) {
  const LustreLibrary* by = library();
  if (by == nullptr) return get_by_attribute(path, layout);
  // What a file has is asked for plainly: "expected" would fill in what is not known of it.
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return -errno;
  const unsigned flags = S_ISDIR(status.st_mode) ? lustre_get_expected : 0;
  const OwnedLayout found(*by, by->get_by_path(path.c_str(), flags));
  return found.get() == nullptr ? error_of_client() : read_layout(*by, found.get(), layout);
}

int LustreLayouts::set(const std::string& directory, const Layout& layout) {
  try {
    const Layout fitted = fitted_to_lustre(layout);
    const LustreLibrary* by = library();
    constexpr int flags = O_RDONLY | O_DIRECTORY;
    const int fd = by == nullptr ? open_with(directory, flags | O_CLOEXEC, 0, fitted)
                                 : open_with(*by, directory, flags, 0, fitted);
    if (fd < 0) return fd;
    ::close(fd);
    return 0;
  } catch (const std::invalid_argument&) {
    return -EINVAL;
  }
}

int LustreLayouts::make(const std::string& path, std::uint32_t mode, const Layout& layout) {
  try {
    const Layout fitted = fitted_to_lustre(layout);
    const LustreLibrary* by = library();
    struct stat status {};
    if (::lstat(path.c_str(), &status) == 0) return -EEXIST;
    constexpr int flags = O_WRONLY | O_CREAT | O_EXCL;
    const int fd = by == nullptr ? open_with(path, flags | O_CLOEXEC, mode, fitted)
                                 : open_with(*by, path, flags, mode, fitted);
    int error = fd < 0 ? fd : 0;
    if (fd >= 0) ::close(fd);
    Layout granted;
    if (error == 0) error = get(path, granted);
    if (error == 0 && !layout.at_most && !grants(granted, fitted)) error = -EINVAL;
    // The library leaves what it has made where it cannot set the layout. One that holds bytes is
    // somebody else's.
    const bool is_there = ::lstat(path.c_str(), &status) == 0 && status.st_size == 0;
    if (error != 0 && error != -EEXIST && is_there) ::unlink(path.c_str());
    return error;
  } catch (const std::invalid_argument&) {
    return -EINVAL;
  }
}

}  // namespace ferry::storage
