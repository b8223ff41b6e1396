// The io_uring engine of storage `posix`.
#pragma once

#include <memory>

#include "storage/posix_queue.hpp"

namespace ferry::storage {

// Must be called, and the queue used, on one and the same thread (IORING_SETUP_SINGLE_ISSUER).
// Throws std::system_error where the kernel refuses io_uring.
std::unique_ptr<Queue> make_uring_queue(PosixShared& shared, const QueueOptions& options);

// Whether this process may use io_uring: 0 or a negative errno.
int uring_refused();

}  // namespace ferry::storage
