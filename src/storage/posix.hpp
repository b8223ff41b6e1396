// Storage `posix`: any mounted file system, through io_uring or, where the kernel refuses it,
// through blocking calls on worker threads.
#pragma once

#include <memory>

#include "storage/storage.hpp"

namespace ferry::storage {

enum class Engine : std::uint8_t {
  automatic,  // io_uring if the kernel grants it
  io_uring,   // io_uring or an error
  threads,
};

// Throws std::system_error when `io_uring` is demanded and refused.
std::unique_ptr<Storage> make_posix(Engine engine);

}  // namespace ferry::storage
