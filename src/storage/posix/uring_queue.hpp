// The io_uring engine of storage `posix`.
#pragma once

#include <cstdint>
#include <memory>

#include "storage/posix/queue.hpp"

namespace ferry::storage {

// Call it, and use the queue, on the same thread (IORING_SETUP_SINGLE_ISSUER), unless
// QueueOptions::changes_threads is set. Throws std::system_error if the kernel refuses io_uring.
std::unique_ptr<Queue> make_uring_queue(PosixShared& shared, const QueueOptions& options);

// The consequence of the ring's answer to a transfer.
enum class AfterRing : std::uint8_t { over, ring_again, blocking_call };
// Counts the bytes moved, and sets the result of a finished transfer.
AfterRing after_ring(Operation& operation, int result);

// Whether this process may use io_uring: 0 or a negative errno.
int uring_refused();

}  // namespace ferry::storage
