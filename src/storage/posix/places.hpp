// Finds the file system of an operation without touching it: if a mount's server does not answer,
// every call on the mount hangs.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/mounts.hpp"
#include "storage/queue/worker_pool.hpp"
#include "storage/storage.hpp"

namespace ferry::storage {

// Places are the numbers of file systems (struct stat). Thread-safe.
class Places {
 public:
  Places() = default;
  ~Places();
  Places(const Places&) = delete;
  Places& operator=(const Places&) = delete;

  // Of an open file, or of a path by its words alone.
  Place of(const Operation& operation);
  // The same after following the path's symbolic links on `place`, as far as they stay there. Reads
  // them, so it may wait for that file system.
  Place find(const Operation& operation, Place place);

 private:
  using Mounts = std::shared_ptr<const std::vector<Mount>>;

  Mounts mounts();
  Place follow(const std::string& path, Place place, bool follows_last);

  std::mutex mutex_;  // guards what follows
  Mounts mounts_;
  int table_ = -1;  // reports when they are stale
};

}  // namespace ferry::storage
