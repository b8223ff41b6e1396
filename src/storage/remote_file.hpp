// Shared by files of remote storages: their open flags, and what these forbid.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "storage/late_changes.hpp"
#include "storage/storage.hpp"

namespace ferry::storage {

class RemoteFile : public File {
 public:
  using File::File;
  // 0 or the negative errno that ends this operation on the file before it begins: the kernel's
  // checks of a transfer's arguments, and the file's late changes.
  int refusal(const Operation& operation) const;
  // By its flags of open(2).
  void opened_with(int flags);

  bool readable = false;
  bool writable = false;
  bool append = false;
  bool directory = false;
  bool synchronous = false;  // O_SYNC, O_DSYNC: each write is durable when it is acknowledged
  std::uint64_t inode = 0;
  std::shared_ptr<LateChanges> changes;  // null if none can be late
  std::chrono::milliseconds timeout{0};  // of each call on it

 private:
  int refusal_of_transfer(const Operation& operation) const;
};

// The error of open(2) for a remote file of this mode that is neither regular nor a directory. 0:
// it can be opened.
int refusal_of_type(std::uint32_t mode);

// umask(2) can only be read by changing it for all threads; this asks the kernel in another way.
std::uint32_t umask_of_process();

}  // namespace ferry::storage
