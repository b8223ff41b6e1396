// Changes of a file that were reported as failed but are still in flight.
//
// A client library or a server may execute a write or truncation long after its caller got
// -ETIMEDOUT, over newer bytes that were acknowledged and synced meanwhile. So a file with such a
// call outstanding refuses writes, truncations and syncs, with that call's error, until it returns.
// Reads continue.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>

#include "storage/of_inode.hpp"

namespace ferry::storage {

// Of one file. Thread-safe.
class LateChanges {
 public:
  // The same for every opening of the file in this process, as Status names it. Lives for as long
  // as an opening or a late call has it.
  static std::shared_ptr<LateChanges> of(std::uint64_t device, std::uint64_t inode) {
    return of_inode<LateChanges>(device, inode);
  }

  // 0, or the negative errno that changes and syncs of the file are refused with.
  int error() const;

 private:
  friend class LateChange;
  void begin(int error);
  void end();

  mutable std::mutex mutex_;
  unsigned out_ = 0;
  int error_ = 0;  // of the oldest of them
};

// One that is out, until this is destroyed: when the library or the server can carry it out no
// more. To be made before its caller is answered.
class LateChange {
 public:
  // `error`: the answer to its caller.
  LateChange(std::shared_ptr<LateChanges> file, int error) : file_(std::move(file)) {
    file_->begin(error);
  }
  ~LateChange() { file_->end(); }
  LateChange(const LateChange&) = delete;
  LateChange& operator=(const LateChange&) = delete;

 private:
  const std::shared_ptr<LateChanges> file_;
};

}  // namespace ferry::storage
