#include "storage/lustre/layouts.hpp"

#include <array>
#include <cerrno>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/mounts.hpp"
#include "storage/lustre/attribute.hpp"
#include "storage/lustre/defaults.hpp"

namespace ferry::storage {
namespace {

// The first two say that the file system is another one. The library may return -1 with errno 0.
int error_of_client() {
  if (errno == ENOTTY || errno == ENOTSUP) return -EOPNOTSUPP;
  return errno == 0 ? -EINVAL : -errno;
}

// ---- by the library

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

// A component may have the pool of the one before it. False with errno.
bool write_pool(const LustreLibrary& library, const std::string& pool, LustreLayout* to) {
  std::array<char, 64> inherited{};
  if (library.pool_name_get(to, inherited.data(), inherited.size()) < 0) return false;
  return pool == inherited.data() || library.pool_name_set(to, pool.c_str()) == 0;
}

// The current component. Returns false with errno. The count follows the server, which changes it.
bool write_component(const LustreLibrary& library, const Layout& from, LustreLayout* to) {
  const std::uint64_t pattern =
      has_extra(from, overstriping_name) ? lustre_overstriping : lustre_raid0;
  const std::uint64_t bytes = from.stripe_bytes == 0 ? lustre_default : from.stripe_bytes;
  std::uint64_t count = from.stripe_count == 0 ? lustre_default : from.stripe_count;
  if (has_extra(from, all_servers_name)) count = lustre_all_servers;
  return library.pattern_set(to, pattern) == 0 && library.stripe_size_set(to, bytes) == 0 &&
         write_pool(library, from.pool, to) &&
         (from.first_server < 0 ||
          library.ost_index_set(to, 0, static_cast<std::uint64_t>(from.first_server)) == 0) &&
         library.stripe_count_set(to, count) == 0;
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

// Makes a component with a pool the current one, if there is any: then the library looks whether
// the file system has these pools. A server would take any name.
bool use_pool(const LustreLibrary& library, LustreLayout* layout) {
  for (int next = library.use(layout, lustre_first); next == 0;
       next = library.use(layout, lustre_next)) {
    std::array<char, 64> pool{};
    if (library.pool_name_get(layout, pool.data(), pool.size()) < 0) return false;
    if (pool[0] != '\0') return true;
  }
  return true;
}

int open_with(const LustreLibrary& library, const std::string& path, int flags, mode_t mode,
              const Layout& layout) {
  const OwnedLayout wanted(library, library.alloc());
  if (wanted.get() == nullptr) return -ENOMEM;
  errno = 0;
  if (!write_layout(library, layout, wanted.get()) || !use_pool(library, wanted.get()))
    return error_of_client();
  errno = 0;
  const int fd = library.file_open(path.c_str(), flags, mode, wanted.get());
  return fd < 0 ? error_of_client() : fd;
}

// ---- by the kernel

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

// The name of a path's file system; empty if unknown.
std::string mounted_name(const std::string& path) {
  try {
    return lustre_name(mount_of(path).source);
  } catch (const std::system_error&) {
    return "";
  }
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

int LustreLayouts::get(const std::string& path, Layout& layout) const {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return -errno;
  const bool is_directory = S_ISDIR(status.st_mode);
  std::vector<std::byte> attribute(64 << 10);  // as long as attributes get
  const ssize_t bytes =
      ::getxattr(path.c_str(), places_.attribute.c_str(), attribute.data(), attribute.size());
  Layout found;
  if (bytes < 0 && errno != ENODATA) return error_of_client();
  // Without one, all of it is left to the file system.
  if (bytes >= 0) {
    const int error = layout_of_attribute({attribute.data(), static_cast<std::size_t>(bytes)},
                                          is_directory, found);
    if (error != 0) return error;
  }
  if (is_directory) {
    const std::string name = places_.name.empty() ? mounted_name(path) : places_.name;
    fill_in_lustre_defaults(places_.parameters, name, found);
  }
  layout = std::move(found);
  return 0;
}

int LustreLayouts::set(const std::string& directory, const Layout& layout) {
  try {
    const Layout fitted = fitted_to_lustre(layout);
    const LustreLibrary* by = library();
    constexpr int flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
    const int fd = by == nullptr ? open_with(directory, flags, 0, fitted)
                                 : open_with(*by, directory, flags, 0, fitted);
    if (fd < 0) return fd;
    ::close(fd);
    return is_granted(directory, fitted);
  } catch (const std::invalid_argument&) {
    return -EINVAL;
  }
}

int LustreLayouts::is_granted(const std::string& path, const Layout& asked) const {
  Layout granted;
  const int error = get(path, granted);
  if (error != 0) return error;
  return asked.at_most || grants(granted, asked) ? 0 : -EINVAL;
}

int LustreLayouts::make(const std::string& path, std::uint32_t mode, const Layout& layout) {
  try {
    const Layout fitted = fitted_to_lustre(layout);
    const LustreLibrary* by = library();
    struct stat status {};
    if (::lstat(path.c_str(), &status) == 0) return -EEXIST;
    constexpr int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
    const int fd = by == nullptr ? open_with(path, flags, mode, fitted)
                                 : open_with(*by, path, flags, mode, fitted);
    int error = fd < 0 ? fd : 0;
    if (fd >= 0) ::close(fd);
    if (error == 0) error = is_granted(path, fitted);
    // The library leaves the file it has made if it cannot set the layout. A file with data is
    // another program's.
    const bool is_there = ::lstat(path.c_str(), &status) == 0 && status.st_size == 0;
    if (error != 0 && error != -EEXIST && is_there) ::unlink(path.c_str());
    return error;
  } catch (const std::invalid_argument&) {
    return -EINVAL;
  }
}

}  // namespace ferry::storage
