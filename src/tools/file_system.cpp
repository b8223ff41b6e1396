#include "tools/file_system.hpp"

#include <array>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <ferry/ferry.hpp>

namespace ferry::bench {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

struct Mount {
  std::string point;
  std::string options;
  std::string type;
  std::string source;
};

struct stat status_of(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) throw Error(errno, path);
  return status;
}

// The kernel writes spaces and the like as \040.
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

// A line of /proc/self/mountinfo: id parent major:minor root point options [field...] - type source
// super-options.
Mount parse_mount(const std::string& line) {
  std::istringstream words(line);
  Mount mount;
  std::string skip;
  std::string super_options;
  words >> skip >> skip >> skip >> skip >> mount.point >> mount.options;
  while (words >> skip && skip != "-") {
  }
  words >> mount.type >> mount.source >> super_options;
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

bool lies_under(const std::string& path, const std::string& point) {
  if (point == "/") return true;
  return path == point || path.rfind(point + "/", 0) == 0;
}

// The last of the longest mount points above the path: later mounts cover earlier ones.
Mount mount_of(const std::string& path) {
  const std::unique_ptr<char, decltype(&std::free)> real(::realpath(path.c_str(), nullptr),
                                                         &std::free);
  if (!real) throw Error(errno, path);
  std::ifstream mounts("/proc/self/mountinfo");
  Mount best;
  for (std::string line; std::getline(mounts, line);) {
    Mount mount = parse_mount(line);
    if (lies_under(real.get(), mount.point) && mount.point.size() >= best.point.size()) {
      best = std::move(mount);
    }
  }
  return best;
}

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  const std::size_t last = line.find_last_not_of(" \t");
  return last == std::string::npos ? "" : line.substr(0, last + 1);
}

Json number_or_null(const std::string& text) {
  char* end = nullptr;
  const unsigned long long value = std::strtoull(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0') return nullptr;
  return value;
}

Json text_or_null(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

// The folder in /sys of a file system's block device; empty where the device is none of this
// machine's (network and memory file systems).
fs::path device_folder(dev_t device, const std::string& source) {
  if (major(device) == 0 && source.rfind("/dev/", 0) == 0) {  // btrfs has numbers of its own
    struct stat status {};
    if (::stat(source.c_str(), &status) == 0 && S_ISBLK(status.st_mode)) device = status.st_rdev;
  }
  std::error_code error;
  const fs::path link =
      "/sys/dev/block/" + std::to_string(major(device)) + ":" + std::to_string(minor(device));
  return fs::canonical(link, error);
}

Json block_device(dev_t device, const std::string& source) {
  const fs::path itself = device_folder(device, source);
  if (itself.empty()) return nullptr;
  std::error_code error;
  const bool partition = fs::exists(itself / "partition", error);
  const fs::path disk = partition ? itself.parent_path() : itself;
  const fs::path driver = fs::canonical(disk / "device" / "driver", error);
  const std::string rotational = first_line(disk / "queue" / "rotational");
  Json facts = {
      {"name", itself.filename().string()},
      {"disk", disk.filename().string()},
      {"driver", text_or_null(error ? "" : driver.filename().string())},
      {"model", text_or_null(first_line(disk / "device" / "model"))},
      {"rotational", nullptr},
      {"scheduler", text_or_null(first_line(disk / "queue" / "scheduler"))},
      {"logical_block_bytes", number_or_null(first_line(disk / "queue" / "logical_block_size"))},
      {"size_bytes", nullptr}};
  if (!rotational.empty()) facts["rotational"] = rotational == "1";
  const Json sectors = number_or_null(first_line(itself / "size"));
  if (sectors.is_number()) facts["size_bytes"] = sectors.get<std::uint64_t>() * 512;
  return facts;
}

const char* kind_of(mode_t mode) {
  if (S_ISREG(mode)) return "file";
  if (S_ISDIR(mode)) return "directory";
  if (S_ISBLK(mode)) return "block device";
  if (S_ISCHR(mode)) return "character device";
  if (S_ISFIFO(mode)) return "FIFO";
  return "socket";
}

// Opens for direct I/O: the file itself, or a nameless file in the directory.
int open_direct(const std::string& path, mode_t mode) {
  constexpr int flags = O_DIRECT | O_CLOEXEC;
  if (S_ISDIR(mode)) return ::open(path.c_str(), O_TMPFILE | O_RDWR | flags, 0600);
  if (S_ISREG(mode) || S_ISBLK(mode)) return ::open(path.c_str(), O_RDONLY | O_NONBLOCK | flags);
  errno = EINVAL;
  return -1;
}

Json direct_io(const std::string& path, mode_t mode) {
  Json facts = {{"possible", false},
                {"memory_alignment_bytes", nullptr},
                {"offset_alignment_bytes", nullptr},
                {"note", nullptr}};
  const int fd = open_direct(path, mode);
  if (fd < 0) {
    const int error = errno;
    if (S_ISDIR(mode) && error != EINVAL) {
      facts["possible"] = nullptr;
      facts["note"] = "not tried: " + std::generic_category().message(error);
    } else {
      facts["note"] = std::generic_category().message(error);
    }
    return facts;
  }
  facts["possible"] = true;
#ifdef STATX_DIOALIGN
  struct statx status {};
  if (::statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &status) == 0 &&
      (status.stx_mask & STATX_DIOALIGN) != 0 && status.stx_dio_offset_align != 0) {
    facts["memory_alignment_bytes"] = status.stx_dio_mem_align;
    facts["offset_alignment_bytes"] = status.stx_dio_offset_align;
  }
#endif
  if (facts["offset_alignment_bytes"].is_null()) {
    facts["note"] = "the kernel does not tell the alignment; 4096 bytes are assumed";
  }
  ::close(fd);
  return facts;
}

// How the storage `posix` treats the file system, in words. Follows src/storage/posix_queue.cpp.
Json served(const std::string& type, mode_t mode, const std::string& engine) {
  static const std::set<std::string> remote = {"nfs",  "nfs4", "afs",    "9p",   "cifs",
                                               "smb3", "ceph", "lustre", "pvfs2"};
  static const std::set<std::string> memory = {"tmpfs", "ramfs"};
  const std::string transfers = engine == "io_uring" ? "io_uring" : "worker threads";
  const std::string rest = "opening, syncing and closing by worker threads";
  std::string why;
  if (memory.count(type) != 0) {
    why = type + " is memory: transfers on the server thread itself, since nothing can block; " +
          rest;
  } else if (remote.count(type) != 0 || type.rfind("fuse", 0) == 0 ||
             !(S_ISREG(mode) || S_ISDIR(mode))) {
    why = "may wait for somebody else: reads and O_DIRECT transfers by " + transfers +
          ", all else by worker threads, so that the server thread never waits";
  } else {
    why =
        "cached reads, and buffered writes while they are quick, on the server thread itself; "
        "reads from the device and O_DIRECT transfers by " +
        transfers + "; slow buffered writes, " + rest;
  }
  return {{"storage", "posix"}, {"engine", engine}, {"why", why}};
}

}  // namespace

Json file_system_facts(const std::string& path) {
  const struct stat status = status_of(path);
  const Mount mount = mount_of(path);
  struct statvfs space {};
  Json free_bytes = nullptr;
  if (::statvfs(path.c_str(), &space) == 0) {
    free_bytes = std::uint64_t{space.f_bavail} * space.f_frsize;
  }
  return {
      {"mount_point", mount.point}, {"type", mount.type},
      {"source", mount.source},     {"options", mount.options},
      {"free_bytes", free_bytes},   {"block_device", block_device(status.st_dev, mount.source)}};
}

std::string block_device_folder(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return "";
  return device_folder(status.st_dev, mount_of(path).source).string();
}

Json path_facts(const std::string& path, const std::string& engine) {
  const struct stat status = status_of(path);
  Json facts = {{"path", path}, {"kind", kind_of(status.st_mode)}, {"size_bytes", nullptr}};
  if (S_ISREG(status.st_mode)) facts["size_bytes"] = status.st_size;
  facts["file_system"] = file_system_facts(path);
  facts["direct_io"] = direct_io(path, status.st_mode);
  facts["served"] = served(facts["file_system"]["type"], status.st_mode, engine);
  return facts;
}

}  // namespace ferry::bench
