// Where this library's lines go: the program's standard error, also when the program has closed
// that stream before it ends, as the GNU tools do.
#pragma once

#include <atomic>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/kernel_call.hpp"

namespace ferry::run {

// Safe in signal handlers; errno stays.
class StandardError {
 public:
  // The program is about to close the stream.
  static void keep() {
    struct stat found {};
    if (kernel_call(SYS_fstat, STDERR_FILENO, &found) != 0) return;
    device = found.st_dev;
    inode = found.st_ino;
    const long kept = kernel_call(SYS_fcntl, STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
    if (kept >= 0) copy = static_cast<int>(kept);
  }
  // -1: it is gone. The program may close the copy as well, and give either number to another file.
  static int descriptor() {
    const int kept = copy.load();
    if (kept < 0) return STDERR_FILENO;
    struct stat found {};
    const bool stands = kernel_call(SYS_fstat, kept, &found) == 0 && found.st_dev == device &&
                        found.st_ino == inode;
    return stands ? kept : -1;
  }

 private:
  static inline constinit std::atomic<int> copy{-1};
  static inline constinit std::atomic<dev_t> device{0};
  static inline constinit std::atomic<ino_t> inode{0};
};

}  // namespace ferry::run
