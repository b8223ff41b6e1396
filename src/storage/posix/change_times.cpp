#include "storage/posix/change_times.hpp"

#include <csignal>
#include <cstdio>

#include <fcntl.h>
#include <unistd.h>

namespace ferry::storage {

bool has_no_writers(int fd) {
  // With a separate open file description: settings here affect all its sharers, in other threads
  // and forked processes.
  char path[32];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  const int own = ::open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (own < 0) return false;
  // The kernel signals a lease's holder when the file is opened for writing. The default, SIGIO,
  // would end the process; SIGURG is ignored unless handled. Returning the lease undoes the
  // setting.
  const bool granted = fcntl(own, F_SETSIG, SIGURG) == 0 && fcntl(own, F_SETLEASE, F_RDLCK) == 0;
  if (granted) fcntl(own, F_SETLEASE, F_UNLCK);
  ::close(own);
  return granted;
}

bool ChangeTimes::is_proven(const File& file, std::int64_t changed_ns) const {
  const std::lock_guard lock(mutex_);
  for (const Times* times : {&proven_, &proven_before_}) {
    if (const auto at = times->find(file); at != times->end()) return at->second == changed_ns;
  }
  return false;
}

void ChangeTimes::remember(const File& file, std::int64_t changed_ns) {
  const std::lock_guard lock(mutex_);
  // A forgotten file must be quiet again.
  if (proven_.size() >= files_max / 2 && !proven_.contains(file))
    proven_before_ = std::exchange(proven_, {});
  proven_[file] = changed_ns;
}

}  // namespace ferry::storage
