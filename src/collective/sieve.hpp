// Data sieving: a rank that moves many small pieces on its own moves what lies between them, too,
// and makes one storage request of many.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "collective/context.hpp"

namespace ferry::collective {

// Locks ranges of a file of this machine's mounts (fcntl, of the open file description), so that
// what is read, changed and written back by one rank is not written by another meanwhile.
class RangeLock {
 public:
  // Null where the file cannot be opened for it.
  static std::unique_ptr<RangeLock> make(const std::string& path);
  ~RangeLock();
  RangeLock(const RangeLock&) = delete;
  RangeLock& operator=(const RangeLock&) = delete;

  // Waits for others. 0 or an errno.
  int lock(const Extent& range) const;
  void unlock(const Extent& range) const;

 private:
  explicit RangeLock(int descriptor) : descriptor_(descriptor) {}
  const int descriptor_;
};

// Pieces that lie within `buffer_bytes`, with holes of up to `hole_bytes_max` between them, are one
// request.
struct Sieve {
  std::int64_t buffer_bytes = 4 << 20;
  std::int64_t hole_bytes_max = 0;
};

// Like transfer_alone(). Two buffers: one is read while the other is taken apart.
int read_sieved(StorageFile& file, Phases& phases, const Request& request, const Sieve& sieve);
// The same; what lies in holes is read and written back, under the lock. What has no holes is
// written under it as well, so all writers of the file must sieve. The file must be open for
// reading, too.
int write_sieved(StorageFile& file, Phases& phases, const Request& request, const Sieve& sieve,
                 const RangeLock& lock);

}  // namespace ferry::collective
