// How files of mounted file systems are reached, for whoever wants to say so.
#pragma once

#include <cstdint>

namespace ferry {

enum class StorageEngine : std::uint8_t {
  automatic,  // io_uring if the kernel grants it
  io_uring,   // io_uring or an error
  threads,    // blocking calls
};

}  // namespace ferry
