#include "storage/mounted_layout.hpp"

#include <array>
#include <cerrno>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <stdexcept>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/mounts.hpp"
#include "storage/lustre/layouts.hpp"

namespace ferry::storage {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t lustre_kind = 0x0BD00BD0;

LustreLayouts& lustre_layouts() {
  static LustreLayouts layouts("liblustreapi.so.1");
  return layouts;
}

int error_of_attributes() {
  return errno == ENOTSUP ? -EOPNOTSUPP : -errno;
}

// -ENODATA where it is not set.
int attribute(const fs::path& path, const std::string& name, std::string& value) {
  std::array<char, 256> text{};
  const ssize_t bytes = ::getxattr(path.c_str(), name.c_str(), text.data(), text.size());
  if (bytes < 0) return error_of_attributes();
  value.assign(text.data(), static_cast<std::size_t>(bytes));
  return 0;
}

int number(const fs::path& path, const std::string& name, std::uint64_t& value) {
  std::string text;
  if (const int error = attribute(path, name, text); error != 0) return error;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() ? 0 : -EIO;
}

int attributes(const fs::path& path, const std::string& base, Layout& layout) {
  Layout found;
  std::uint64_t count = 0;
  int error = number(path, base + "stripe_unit", found.stripe_bytes);
  if (error == 0) error = number(path, base + "stripe_count", count);
  if (error == 0) error = number(path, base + "object_size", found.extras[object_bytes_name]);
  if (error == 0) error = attribute(path, base + "pool", found.pool);
  if (error != 0) return error;
  if (count > std::numeric_limits<std::uint32_t>::max()) return -EIO;
  found.stripe_count = static_cast<std::uint32_t>(count);
  layout = found;
  return 0;
}

}  // namespace

StripedSystem striped_system_of(std::uint64_t kind, const std::string& mount_type) {
  if (kind == lustre_kind) return StripedSystem::lustre;
  const bool is_ceph = mount_type == "ceph" || mount_type == "fuse.ceph-fuse";
  return is_ceph ? StripedSystem::ceph : StripedSystem::none;
}

StripedSystem striped_system(const std::string& path) {
  std::error_code error;
  fs::path there = fs::absolute(path, error);
  while (!there.empty() && there != there.root_path() && !fs::exists(there, error))
    there = there.parent_path();
  struct statfs system {};
  if (::statfs(there.c_str(), &system) != 0) return StripedSystem::none;
  try {
    return striped_system_of(static_cast<std::uint64_t>(system.f_type), mount_of(there).type);
  } catch (const std::system_error&) {
    return StripedSystem::none;
  }
}

int mounted_layout(const std::string& path, Layout& layout) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return -errno;
  const StripedSystem system = striped_system(path);
  if (system == StripedSystem::lustre) return lustre_layouts().get(path, layout);
  if (system != StripedSystem::ceph) return -EOPNOTSUPP;
  if (!S_ISDIR(status.st_mode)) return attributes(path, "ceph.file.layout.", layout);
  // One that has none has that of the directory above it.
  std::error_code error;
  fs::path directory = fs::canonical(path, error);
  const dev_t device = status.st_dev;
  while (!error && ::stat(directory.c_str(), &status) == 0 && status.st_dev == device) {
    const int result = attributes(directory, "ceph.dir.layout.", layout);
    if (result != -ENODATA || directory == directory.root_path()) return result;
    directory = directory.parent_path();
  }
  return -ENODATA;
}

int set_mounted_layout(const std::string& directory, const Layout& layout) {
  const StripedSystem system = striped_system(directory);
  if (system == StripedSystem::lustre) return lustre_layouts().set(directory, layout);
  if (system != StripedSystem::ceph) return -EOPNOTSUPP;
  try {
    const std::string text = ceph_layout_text(fitted_to_ceph(layout));
    const int result =
        ::setxattr(directory.c_str(), "ceph.dir.layout", text.data(), text.size(), 0);
    return result == 0 ? 0 : error_of_attributes();
  } catch (const std::invalid_argument&) {
    return -EINVAL;
  }
}

int make_with_layout(const std::string& path, std::uint32_t mode, const Layout& layout) {
  const StripedSystem system = striped_system(path);
  if (system == StripedSystem::lustre) return lustre_layouts().make(path, mode, layout);
  if (system != StripedSystem::ceph) return -EOPNOTSUPP;
  std::string text;
  try {
    text = ceph_layout_text(fitted_to_ceph(layout));
  } catch (const std::invalid_argument&) {
    return -EINVAL;
  }
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (fd < 0) return -errno;
  int error = 0;
  if (::fsetxattr(fd, "ceph.file.layout", text.data(), text.size(), 0) != 0) {
    error = error_of_attributes();
    ::unlink(path.c_str());
  }
  ::close(fd);
  return error;
}

std::string without_lustre_library() {
  return lustre_layouts().without_library();
}

}  // namespace ferry::storage
