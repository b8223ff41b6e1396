#include "storage/change_times.hpp"

#include <csignal>

#include <fcntl.h>

namespace ferry::storage {

bool has_no_writers(int fd) {
  // The kernel sends a signal to a lease's holder when somebody opens the file for writing. That of
  // SIGIO, the default, would end the process; this one is ignored where nothing handles it.
  if (fcntl(fd, F_SETSIG, SIGURG) != 0 || fcntl(fd, F_SETLEASE, F_RDLCK) != 0) return false;
  fcntl(fd, F_SETLEASE, F_UNLCK);
  return true;
}

bool ChangeTimes::is_proven(const File& file, std::int64_t changed_ns) const {
  const std::lock_guard lock(mutex_);
  const auto at = proven_.find(file);
  return at != proven_.end() && at->second == changed_ns;
}

void ChangeTimes::remember(const File& file, std::int64_t changed_ns) {
  const std::lock_guard lock(mutex_);
  // A file that is forgotten has to be quiet once more.
  if (proven_.size() >= files_max && !proven_.contains(file)) proven_.clear();
  proven_[file] = changed_ns;
}

}  // namespace ferry::storage
