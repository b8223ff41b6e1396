// Where a program has files without buffers: what it reads and writes there must not miss what is
// in the buffers of another descriptor.
#pragma once

#include <map>
#include <set>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/kernel_call.hpp"

namespace ferry::iobuf {

// Throws std::bad_alloc. One thread at a time.
class UnbufferedFiles {
 public:
  void add(int descriptor, const struct stat& status) {
    descriptors_[descriptor] = file_of(status);
  }
  void remove(int descriptor) { descriptors_.erase(descriptor); }
  // A mapping stays when its descriptor is closed, so it is never forgotten.
  void add_mapped(const struct stat& status) { mapped_.insert(file_of(status)); }

  // Whether the file is open, or mapped, without buffers.
  bool has(const struct stat& status) {
    const File wanted = file_of(status);
    if (mapped_.contains(wanted)) return true;
    for (auto at = descriptors_.begin(); at != descriptors_.end();) {
      if (at->second != wanted) {
        ++at;
      } else if (is_open(at->first, wanted)) {
        return true;
      } else {
        at = descriptors_.erase(at);
      }
    }
    return false;
  }

 private:
  using File = std::pair<dev_t, ino_t>;
  static File file_of(const struct stat& status) { return {status.st_dev, status.st_ino}; }
  // Nobody says when one is closed, so ask.
  static bool is_open(int descriptor, const File& wanted) {
    struct stat status {};
    return kernel_call(SYS_newfstatat, descriptor, "", &status, AT_EMPTY_PATH) == 0 &&
           file_of(status) == wanted;
  }

  std::map<int, File> descriptors_;  // some are closed
  std::set<File> mapped_;
};

}  // namespace ferry::iobuf
