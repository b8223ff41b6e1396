// How a test's own file system becomes one of the kernel's.
#pragma once

#include <cerrno>
#include <string>

#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

namespace ferry::test {

// Mounts what answers the requests of the returned descriptor at `path`; or returns a negative
// errno. `options` are those behind the descriptor's.
inline int mount_fuse(const char* name, const std::string& path, const std::string& options,
                      int open_flags = 0) {
  const int device = open("/dev/fuse", O_RDWR | O_CLOEXEC | open_flags);
  if (device < 0) return -errno;
  const std::string all = "fd=" + std::to_string(device) + ",user_id=0,group_id=0," + options;
  if (mount(name, path.c_str(), "fuse", 0, all.c_str()) == 0) return device;
  const int error = errno;
  close(device);
  return -error;
}

}  // namespace ferry::test
