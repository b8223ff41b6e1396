#include "base/mounts.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <system_error>
#include <utility>

#include <linux/magic.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

namespace ferry {
namespace {

namespace fs = std::filesystem;

// The kernel escapes spaces and the like as \040.
std::string unescape(const std::string& text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size()) {
      plain += static_cast<char>(std::strtol(text.substr(i + 1, 3).c_str(), nullptr, 8));
      i += 3;
    } else {
      plain += text[i];
    }
  }
  return plain;
}

// "8:1"
dev_t parse_device(const std::string& text) {
  char* end = nullptr;
  const unsigned long first = std::strtoul(text.c_str(), &end, 10);
  const unsigned long second = *end == ':' ? std::strtoul(end + 1, nullptr, 10) : 0;
  return makedev(static_cast<unsigned>(first), static_cast<unsigned>(second));
}

}  // namespace

bool lies_under(const std::string& path, const std::string& point) {
  if (point == "/") return true;
  return path == point || path.rfind(point + "/", 0) == 0;
}

std::string option_of(const Mount& mount, const std::string& name) {
  std::istringstream options(mount.options);
  for (std::string option; std::getline(options, option, ',');) {
    if (option.rfind(name + "=", 0) == 0) return unescape(option.substr(name.size() + 1));
  }
  return "";
}

// The fields: id parent major:minor root point options [field...] - type source super-options.
Mount parse_mount(const std::string& line) {
  std::istringstream words(line);
  Mount mount;
  std::string skip;
  std::string numbers;
  std::string super_options;
  words >> skip >> skip >> numbers >> skip >> mount.point >> mount.options;
  while (words >> skip && skip != "-") {
  }
  words >> mount.type >> mount.source >> super_options;
  mount.device = parse_device(numbers);
  mount.point = unescape(mount.point);
  mount.source = unescape(mount.source);
  std::istringstream more(super_options);
  for (std::string option; std::getline(more, option, ',');) {
    if (("," + mount.options + ",").find("," + option + ",") == std::string::npos) {
      mount.options += "," + option;
    }
  }
  return mount;
}

namespace {

// The name of a file system type, for types that a root directory can have.
std::string type_name(std::uint64_t type) {
  switch (type) {
    case EXT4_SUPER_MAGIC:
      return "ext4";
    case 0x58465342:
      return "xfs";
    case BTRFS_SUPER_MAGIC:
      return "btrfs";
    case TMPFS_MAGIC:
      return "tmpfs";
    case 0x858458F6:
      return "ramfs";
    case OVERLAYFS_SUPER_MAGIC:
      return "overlay";
    case SQUASHFS_MAGIC:
      return "squashfs";
    case F2FS_SUPER_MAGIC:
      return "f2fs";
    case NFS_SUPER_MAGIC:
      return "nfs";
    case FUSE_SUPER_MAGIC:
      return "fuse";
    case 0x2FC12FC1:
      return "zfs";
    case 0x0BD00BD0:
      return "lustre";
    default:
      return "unknown";
  }
}

// "/dev/vda", if it is a block device of this machine; else empty.
std::string block_device_path(dev_t device) {
  const fs::path folder = block_device_folder(device, "");
  return folder.empty() ? "" : "/dev/" + folder.filename().string();
}

}  // namespace

std::vector<Mount> with_root(std::vector<Mount> mounts) {
  const auto is_root = [](const Mount& mount) { return mount.point == "/"; };
  struct stat status {};
  struct statfs system {};
  if (std::any_of(mounts.begin(), mounts.end(), is_root) || ::stat("/", &status) != 0 ||
      ::statfs("/", &system) != 0)
    return mounts;
  Mount root;
  root.point = "/";
  root.options = (system.f_flags & ST_RDONLY) != 0 ? "ro" : "rw";
  root.device = status.st_dev;
  const auto same = std::find_if(mounts.begin(), mounts.end(),
                                 [&](const Mount& mount) { return mount.device == root.device; });
  const bool is_told = same != mounts.end();
  root.type = is_told ? same->type : type_name(static_cast<std::uint64_t>(system.f_type));
  root.source = is_told ? same->source : block_device_path(root.device);
  mounts.insert(mounts.begin(), std::move(root));
  return mounts;
}

std::vector<Mount> read_mounts() {
  std::vector<Mount> mounts;
  std::ifstream lines("/proc/self/mountinfo");
  for (std::string line; std::getline(lines, line);)
    mounts.push_back(parse_mount(line));
  return with_root(std::move(mounts));
}

void keep_mounts_inside() {
  const auto is_done = [](bool made) {
    if (!made) throw std::system_error(errno, std::system_category(), "the namespace's mounts");
  };
  const auto becomes_slave = [](const char* point) {
    return ::mount(nullptr, point, nullptr, MS_REC | MS_SLAVE, nullptr) == 0;
  };
  if (becomes_slave("/")) return;
  is_done(errno == EINVAL);
  // /proc is a mount point everywhere, and is one again below itself.
  is_done(becomes_slave("/proc"));
  is_done(::mount("/", "/proc", nullptr, MS_BIND | MS_REC, nullptr) == 0);
  is_done(becomes_slave("/proc"));
  std::error_code removed;  // a working folder that is gone stays what it is
  const fs::path folder = fs::current_path(removed);
  is_done(::chroot("/proc") == 0 && (removed || ::chdir(folder.c_str()) == 0));
}

// The last of the longest mount points above the path: later mounts hide earlier ones.
Mount mount_of(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> real(::realpath(path.c_str(), nullptr),
                                                         &std::free);
  if (!real) throw std::system_error(errno, std::system_category(), path);
  Mount best;
  for (Mount& mount : read_mounts()) {
    if (lies_under(real.get(), mount.point) && mount.point.size() >= best.point.size()) {
      best = std::move(mount);
    }
  }
  return best;
}

fs::path block_device_folder(dev_t device, const std::string& source) {
  if (major(device) == 0 && source.rfind("/dev/", 0) == 0) {  // btrfs has numbers of its own
    struct stat status {};
    if (::stat(source.c_str(), &status) == 0 && S_ISBLK(status.st_mode)) device = status.st_rdev;
  }
  std::error_code error;
  const fs::path link =
      "/sys/dev/block/" + std::to_string(major(device)) + ":" + std::to_string(minor(device));
  fs::path folder = fs::canonical(link, error);
  return error ? fs::path() : folder;
}

std::uint64_t block_device_bytes(const fs::path& folder) {
  constexpr std::uint64_t sector_bytes = 512;
  std::uint64_t sectors = 0;
  std::ifstream(folder / "size") >> sectors;
  return sectors * sector_bytes;
}

}  // namespace ferry
