#include "programs/file_system.hpp"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <set>

#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <ferry/ferry.hpp>

#include "base/block_device.hpp"
#include "base/mounts.hpp"
#include "programs/machine_facts.hpp"

namespace ferry::bench {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

struct stat status_of(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) throw Error(errno, path);
  return status;
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

// Null if the device is not on this machine (network and memory file systems).
Json block_device(dev_t device, const std::string& source) {
  const fs::path itself = ferry::block_device_folder(device, source);
  if (itself.empty()) return nullptr;
  const BlockDevice described = describe_block_device(itself);
  const fs::path disk = described.name == described.disk ? itself : itself.parent_path();
  const std::string rotational = first_line(disk / "queue" / "rotational");
  Json facts = {
      {"name", described.name},
      {"disk", described.disk},
      {"kind", text_or_null(described.kind)},
      {"detail", text_or_null(described.detail)},
      {"below", described.below},
      {"driver", text_or_null(described.driver)},
      {"model", text_or_null(first_line(disk / "device" / "model"))},
      {"rotational", nullptr},
      {"scheduler", text_or_null(first_line(disk / "queue" / "scheduler"))},
      {"logical_block_bytes", number_or_null(first_line(disk / "queue" / "logical_block_size"))},
      {"size_bytes", nullptr}};
  if (!rotational.empty()) facts["rotational"] = rotational == "1";
  if (const std::uint64_t bytes = block_device_bytes(itself); bytes > 0)
    facts["size_bytes"] = bytes;
  return facts;
}

// Opens for direct I/O: the file, or an unnamed file in the directory.
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
    facts["note"] = "the kernel does not report the alignment; 4096 bytes are assumed";
  }
  ::close(fd);
  return facts;
}

// Describes how the storage `posix` serves the file system. Follows src/storage/posix/queue.cpp.
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
    why = "may wait for another machine: reads and O_DIRECT transfers by " + transfers +
          ", all else by worker threads, so that the server thread never waits";
  } else {
    why =
        "cached reads, and buffered writes while they are quick, on the server thread itself; "
        "reads from the device and O_DIRECT transfers by " +
        transfers + "; slow buffered writes, " + rest;
  }
  return {{"storage", "posix"}, {"engine", engine}, {"why", why}};
}

Json device_bytes(dev_t device) {
  const std::uint64_t bytes = block_device_bytes(ferry::block_device_folder(device, ""));
  return bytes == 0 ? Json() : Json(bytes);
}

// A block device has no file system of its own; that of its name says nothing of it.
Json raw_device_facts(const std::string& path, dev_t device) {
  return {{"mount_point", path},   {"type", "raw block device"},
          {"source", path},        {"options", ""},
          {"free_bytes", nullptr}, {"block_device", block_device(device, "")}};
}

}  // namespace

const char* kind_of(mode_t mode) {
  if (S_ISREG(mode)) return "file";
  if (S_ISDIR(mode)) return "directory";
  if (S_ISBLK(mode)) return "block device";
  if (S_ISCHR(mode)) return "character device";
  if (S_ISFIFO(mode)) return "FIFO";
  return S_ISSOCK(mode) ? "socket" : "special file";
}

Json file_system_facts(const std::string& path) {
  struct stat status = status_of(path);
  if (S_ISBLK(status.st_mode)) return raw_device_facts(path, status.st_rdev);
  const Mount mount = mount_of(path);
  // An overlay's files are on its upper folder's device.
  const std::string upper = option_of(mount, "upperdir");
  Mount below = mount;
  if (mount.type == "overlay" && !upper.empty() && ::stat(upper.c_str(), &status) == 0)
    below = mount_of(upper);
  struct statvfs space {};
  Json free_bytes = nullptr;
  if (::statvfs(path.c_str(), &space) == 0) {
    free_bytes = std::uint64_t{space.f_bavail} * space.f_frsize;
  }
  return {
      {"mount_point", mount.point}, {"type", mount.type},
      {"source", mount.source},     {"options", mount.options},
      {"free_bytes", free_bytes},   {"block_device", block_device(status.st_dev, below.source)}};
}

std::string block_device_folder(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return "";
  if (S_ISBLK(status.st_mode)) return ferry::block_device_folder(status.st_rdev, "").string();
  return ferry::block_device_folder(status.st_dev, mount_of(path).source).string();
}

Json path_facts(const std::string& path, const std::string& engine) {
  const struct stat status = status_of(path);
  Json facts = {{"path", path}, {"kind", kind_of(status.st_mode)}, {"size_bytes", nullptr}};
  if (S_ISREG(status.st_mode)) facts["size_bytes"] = status.st_size;
  if (S_ISBLK(status.st_mode)) facts["size_bytes"] = device_bytes(status.st_rdev);
  facts["file_system"] = file_system_facts(path);
  facts["direct_io"] = direct_io(path, status.st_mode);
  facts["served"] = served(facts["file_system"]["type"], status.st_mode, engine);
  return facts;
}

}  // namespace ferry::bench
