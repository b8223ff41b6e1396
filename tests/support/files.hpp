// Scratch directories, and files made and read with plain system calls.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mounts.hpp"

namespace ferry::test {

// A system call's result in the form of Ferry's calls.
inline std::int64_t plain(std::int64_t result) {
  return result < 0 ? -errno : result;
}

// The folder of the running program, for files that must be on a disk: /tmp may be memory, and the
// current folder may be the checkout. Asked before main(): in a mount namespace made later, in a
// chroot, the kernel gives a name from outside it.
inline const std::string program_folder =
    std::filesystem::read_symlink("/proc/self/exe").parent_path().string();
inline std::string build_folder() {
  return program_folder;
}

// A directory removed with the object. Everyone may enter it.
class ScratchDirectory {
 public:
  ScratchDirectory() : ScratchDirectory(std::filesystem::temp_directory_path().string()) {}
  explicit ScratchDirectory(const std::string& parent) {
    std::string name = parent + "/ferry-test-XXXXXX";
    if (mkdtemp(name.data()) == nullptr) {
      throw std::system_error(errno, std::system_category(), "mkdtemp " + name);
    }
    chmod(name.c_str(), 0755);
    path_ = name;
  }
  ~ScratchDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }

 private:
  std::string path_;
};

inline void write_file(const std::string& path, std::string_view bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) throw std::runtime_error("cannot write " + path);
}

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  std::string contents;
  char block[16384];  // not cleared: most files that tests read are small, and sanitizers clear
                      // slowly
  do {
    file.read(block, sizeof block);
    contents.append(block, static_cast<std::size_t>(file.gcount()));
  } while (file);
  return contents;
}

// Does to `contents` what writing `data` at `offset` does to a file.
inline void write_to(std::string& contents, std::string_view data, std::size_t offset) {
  if (data.empty()) return;
  contents.resize(std::max(contents.size(), offset + data.size()));
  contents.replace(offset, data.size(), data);
}

inline std::int64_t file_size(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 ? status.st_size : -errno;
}

// Bytes that differ in every place and seed.
inline std::string pattern(std::size_t bytes, std::uint64_t seed) {
  std::string text(bytes, '\0');
  std::uint64_t state = seed * 0x9e3779b97f4a7c15ULL + 1;
  for (std::size_t at = 0; at < bytes; at += sizeof state) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    std::memcpy(text.data() + at, &state, std::min(sizeof state, bytes - at));
  }
  return text;
}

// Compares without printing megabytes: for EXPECT_TRUE.
inline testing::AssertionResult same_bytes(std::string_view got, std::string_view wanted) {
  if (got == wanted) return testing::AssertionSuccess();
  const std::size_t common = std::min(got.size(), wanted.size());
  std::size_t at = 0;
  while (at < common && got[at] == wanted[at])
    ++at;
  std::size_t differ = 0;
  for (std::size_t i = at; i < common; ++i)
    if (got[i] != wanted[i]) ++differ;
  return testing::AssertionFailure()
         << got.size() << " bytes instead of " << wanted.size() << ", the first difference at "
         << at << ", " << differ << " bytes differ";
}

// A descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  operator int() const { return fd_; }  // NOLINT: used in place of one
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

// A private file system for this thread and those it starts later. If this process may not mount,
// why() gives the reason.
class OwnMount {
 public:
  // `options` as for a tmpfs: "size=1m".
  explicit OwnMount(const std::string& options) {
    if (const char* refused = try_mount(options); refused != nullptr) {
      why_ = std::string("this process may not mount: ") + refused + ": " +
             std::system_category().message(errno);
    }
  }
  ~OwnMount() {
    if (mounted_) umount2(directory_.path().c_str(), MNT_DETACH);
  }
  OwnMount(const OwnMount&) = delete;
  OwnMount& operator=(const OwnMount&) = delete;

  explicit operator bool() const { return mounted_; }
  const std::string& why() const { return why_; }
  std::string operator/(std::string_view name) const { return directory_ / name; }
  bool make_read_only() {
    return mount(nullptr, directory_.path().c_str(), nullptr, MS_REMOUNT | MS_RDONLY, nullptr) == 0;
  }

 private:
  // What failed, or null.
  const char* try_mount(const std::string& options) {
    // A user other than root becomes root of a name space, if the kernel allows that.
    if (geteuid() != 0) {
      if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return "unshare";
    } else if (unshare(CLONE_NEWNS) != 0) {
      return "unshare";
    }
    try {
      keep_mounts_inside();
    } catch (const std::system_error& error) {
      errno = error.code().value();
      return "mount /";
    }
    if (mount("ferry-test", directory_.path().c_str(), "tmpfs", 0, options.c_str()) != 0) {
      return "mount tmpfs";
    }
    mounted_ = true;
    chmod(directory_.path().c_str(), 0755);
    return nullptr;
  }

  ScratchDirectory directory_;
  bool mounted_ = false;
  std::string why_;
};

}  // namespace ferry::test
