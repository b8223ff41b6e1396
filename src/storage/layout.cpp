#include "storage/layout.hpp"

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <stdexcept>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

namespace ferry::storage {
namespace {

// -EOPNOTSUPP where the file system has no such attribute.
int attribute(const char* path, const std::string& name, std::string& value) {
  std::array<char, 256> text{};
  const ssize_t bytes = ::getxattr(path, name.c_str(), text.data(), text.size());
  if (bytes < 0) return errno == ENODATA || errno == ENOTSUP ? -EOPNOTSUPP : -errno;
  value.assign(text.data(), static_cast<std::size_t>(bytes));
  return 0;
}

int number(const char* path, const std::string& name, std::uint64_t& value) {
  std::string text;
  if (const int error = attribute(path, name, text); error != 0) return error;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() ? 0 : -EIO;
}

}  // namespace

std::string ceph_layout_text(const Layout& layout) {
  if (layout.first_server >= 0) {
    throw std::invalid_argument("CephFS chooses the first server by itself");
  }
  std::string text;
  const auto add = [&](const char* name, const std::string& value) {
    text += (text.empty() ? "" : " ") + std::string(name) + "=" + value;
  };
  if (layout.stripe_bytes > 0) add("stripe_unit", std::to_string(layout.stripe_bytes));
  if (layout.stripe_count > 0) add("stripe_count", std::to_string(layout.stripe_count));
  for (const auto& [name, value] : layout.extras) {
    if (name != "object_bytes") throw std::invalid_argument("CephFS has no layout setting " + name);
    add("object_size", std::to_string(value));
  }
  if (!layout.pool.empty()) add("pool", layout.pool);
  return text;
}

int mounted_layout(const char* path, Layout& layout) {
  struct stat status {};
  if (::stat(path, &status) != 0) return -errno;
  const std::string base = S_ISDIR(status.st_mode) ? "ceph.dir.layout." : "ceph.file.layout.";
  Layout found;
  std::uint64_t count = 0;
  std::uint64_t object_bytes = 0;
  int error = number(path, base + "stripe_unit", found.stripe_bytes);
  if (error == 0) error = number(path, base + "stripe_count", count);
  if (error == 0) error = number(path, base + "object_size", object_bytes);
  if (error == 0) error = attribute(path, base + "pool", found.pool);
  if (error != 0) return error;
  found.stripe_count = static_cast<std::uint32_t>(count);
  found.extras["object_bytes"] = object_bytes;
  layout = found;
  return 0;
}

int set_mounted_layout(const char* directory, const Layout& layout) {
  try {
    const std::string text = ceph_layout_text(layout);
    if (::setxattr(directory, "ceph.dir.layout", text.data(), text.size(), 0) == 0) return 0;
    return errno == ENOTSUP ? -EOPNOTSUPP : -errno;
  } catch (const std::invalid_argument&) {
    return -EINVAL;
  }
}

int make_with_layout(const char* path, std::uint32_t mode, const Layout& layout) {
  std::string text;
  try {
    text = ceph_layout_text(layout);
  } catch (const std::invalid_argument&) {
    return -EINVAL;
  }
  const int fd = ::open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (fd < 0) return -errno;
  int error = 0;
  if (::fsetxattr(fd, "ceph.file.layout", text.data(), text.size(), 0) != 0) {
    error = errno == ENOTSUP ? -EOPNOTSUPP : -errno;
    ::unlink(path);
  }
  ::close(fd);
  return error;
}

}  // namespace ferry::storage
