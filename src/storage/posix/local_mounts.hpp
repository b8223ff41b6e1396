// Knows which mounts are local, so that a thread that must not wait may look up paths there: names
// in kernel memory are found in a microsecond, while handing the call to a worker takes tens.
//
// For one thread. Learns from files that worker threads have opened. Mount numbers are unique while
// the machine runs, so local ones stay local; kernels before 6.8 have none, and nothing is learnt
// there.
#pragma once

#include <array>
#include <cstdint>

namespace ferry::storage {

// 0 if the kernel does not report it.
std::uint64_t mount_number(int fd);

class LocalMounts {
 public:
  // Records that the mount is local. 0 is none.
  void learn(std::uint64_t mount);

  // A descriptor (O_PATH) of the regular file or directory at `path`, if the kernel knows the whole
  // path without I/O and it is on one of these mounts; else -1.
  int find(const char* path, bool follows_last_link) const;

 private:
  static constexpr unsigned most = 16;  // then the oldest one is forgotten
  std::array<std::uint64_t, most> numbers_{};
  unsigned next_ = 0;
};

}  // namespace ferry::storage
