// Knows which mounts are local, so that a thread that must not wait may look up paths there: names
// in kernel memory are found in a microsecond, while handing the call to a worker takes tens.
//
// For one thread. Learns from files that worker threads have opened or looked up. Mount numbers are
// unique while the machine runs, so local ones stay local; kernels before 6.8 have none, and
// nothing is learnt there.
#pragma once

#include <array>
#include <cstdint>

#include "storage/posix/file_systems.hpp"

struct statx;

namespace ferry::storage {

// What an open file is.
struct FileFacts {
  std::uint32_t mode = 0;
  std::uint64_t device = 0;  // as st_dev
  std::uint64_t inode = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t mount = 0;  // its number; 0 if the kernel does not report it
};
// 0 or a negative errno.
int look_at(int fd, FileFacts& facts);
// 0 if the kernel does not report it.
std::uint64_t mount_number(int fd);

// What statx(2) has of `path`: 0 or a negative errno. Also asks for the type of its file system,
// unless that was done before, so that LocalMounts know it. May wait for a server.
int look_up(const char* path, bool follows_last_link, struct statx& status);

// What is to be done with the file that is looked up.
struct PathUse {
  bool follows_last_link = true;
  bool writes = false;
  bool empties = false;
  bool removes = false;  // its name, and with the last one its bytes
};

class LocalMounts {
 public:
  explicit LocalMounts(FileSystemTypes& types = file_system_types()) : types_(types) {}

  // A descriptor (O_PATH) of the regular file or directory at `path`, if the kernel knows the whole
  // path without I/O, it is on a local mount, and this use of it does not wait; else -1.
  // `status`: what statx(2) has of it.
  int find(const char* path, const PathUse& use, struct statx& status);

  // Opens what is at `path`, where one call can tell that this waits for nothing: the kernel knows
  // the whole path without I/O, and it never leaves the mount that it starts from, which is a local
  // one. That spares the calls of find(). Returns the descriptor, or -1. `flags` neither make,
  // empty nor only name a file. Where find() has a path that leaves its mount, the next openings do
  // not try.
  int open(const char* path, int flags, FileFacts& facts);

  // Makes the file `path` and opens it, if there is nothing of that name and find() would find the
  // folder. Returns the descriptor, or -1 and has made nothing. `flags` have O_CREAT and O_EXCL:
  // what is there is neither opened nor followed.
  int create(const char* path, int flags, std::uint32_t mode);

  // Emptying a larger file frees so many blocks that it may take a tenth of a second.
  static constexpr std::uint64_t emptied_bytes_max = std::uint64_t{64} << 20;

 private:
  struct Known {
    std::uint64_t number = 0;  // 0: none
    bool local = false;
    bool copies = false;  // the first write to a file may copy it, and waits for that (overlayfs)
  };
  // Where paths start: the root, or the working directory.
  struct Start {
    unsigned rests = 0;        // openings that do not try
    bool has_devices = false;  // which may take their time to open: no opening tries
  };
  Known known(std::uint64_t mount);
  bool allows(std::uint64_t mount, bool writes);

  static constexpr unsigned most = 16;  // then the oldest one's type is asked for again
  static constexpr unsigned openings_at_rest = 64;
  FileSystemTypes& types_;
  std::array<Known, most> known_{};
  unsigned next_ = 0;
  Start root_;
  Start working_directory_;
  Start* failed_ = nullptr;  // from where open() did not get just now
};

}  // namespace ferry::storage
