// Transfers of a single rank, plainly or by data sieving: with many small pieces it also moves the
// gaps between them, and makes one storage request of many.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "collective/context.hpp"

namespace ferry::collective {

// Reads or writes exactly the bytes of the request, with one storage request per extent of the
// file, for any memory layout. Converted data goes through four buffers of 256 KiB, or is read in
// place. Returns 0 or an errno; ENODATA at the end of the file. `has_cpus`: this rank may use two.
int transfer_alone(StorageFile& file, Phases& phases, const RankRequest& request,
                   storage::Kind kind, bool has_cpus);

// Locks ranges of a mounted file (fcntl, open file description), so that other ranks do not write
// what one rank is reading, changing and writing back.
class RangeLock {
 public:
  // Null if the file cannot be opened for it.
  static std::unique_ptr<RangeLock> make(const std::string& path);
  ~RangeLock();
  RangeLock(const RangeLock&) = delete;
  RangeLock& operator=(const RangeLock&) = delete;

  // Waits for other holders. Returns 0 or an errno.
  int lock(const Extent& range) const;
  void unlock(const Extent& range) const;

 private:
  RangeLock() = default;
  int descriptor_ = -1;
};

// Pieces within `buffer_bytes`, with holes of up to `hole_bytes_max`, form one request.
struct Sieve {
  std::int64_t buffer_bytes = 4 << 20;
  std::int64_t hole_bytes_max = 0;
};

// Like transfer_alone(), with two buffers: one is read while the other is unpacked.
int read_sieved(StorageFile& file, Phases& phases, const RankRequest& request, const Sieve& sieve);
// The same; reads holes and writes them back, under the lock. Writes without holes also take the
// lock, so all writers of the file must sieve. The file must also be open for reading.
int write_sieved(StorageFile& file, Phases& phases, const RankRequest& request, const Sieve& sieve,
                 const RangeLock& lock);

}  // namespace ferry::collective
