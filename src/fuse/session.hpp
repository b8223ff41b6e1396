// Answers the kernel's requests on an open /dev/fuse, until the file system is mounted nowhere any
// more.
#pragma once

#include <optional>
#include <string>

#include "fuse/mapped_tree.hpp"
#include "storage/storage.hpp"

namespace ferry::fuse {

struct SessionOptions {
  std::string root;  // a path or URI of a directory
  std::optional<OnlyUser> only_user = {};
  unsigned threads = 8;  // requests that may wait for the storage at the same time
};

// Returns when the kernel has ended the connection, after the requests under way: each lasts as
// long as the storage takes at most. `device` stays the caller's.
void serve(int device, storage::Storage& storage, const SessionOptions& options);

}  // namespace ferry::fuse
