// Storage `posix`: mounted file systems, through io_uring or, if the kernel refuses it, through
// blocking calls on worker threads.
#pragma once

#include <memory>

#include <ferry/storage_engine.hpp>

#include "storage/storage.hpp"

namespace ferry::storage {

using Engine = StorageEngine;

// Throws std::system_error when `io_uring` is demanded and refused.
std::unique_ptr<Storage> make_posix(Engine engine);

}  // namespace ferry::storage
