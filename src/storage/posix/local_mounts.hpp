// Which mounts are of local file systems, so that a thread that others wait for may look for a path
// there: what the kernel has in memory of it is found in a microsecond, where handing the call over
// to a worker thread takes tens.
//
// For one thread. It learns from files that a worker thread has opened. A mount's number is never
// used again while the machine runs, so that what is local stays so; kernels before 6.8 have no
// such number, and nothing is learnt there.
#pragma once

#include <array>
#include <cstdint>

namespace ferry::storage {

// 0 where the kernel does not tell.
std::uint64_t mount_number(int fd);

class LocalMounts {
 public:
  // That a file of a local file system lies there. 0 is none.
  void learn(std::uint64_t mount);

  // A descriptor (O_PATH) of the regular file or directory that `path` leads to, if the kernel
  // knows all of the way without asking a medium and it is on one of these mounts; else -1.
  int find(const char* path, bool follows_last_link) const;

 private:
  static constexpr unsigned most = 16;  // then the oldest one is forgotten
  std::array<std::uint64_t, most> numbers_{};
  unsigned next_ = 0;
};

}  // namespace ferry::storage
