// How the kernel is called for mounted files.
#pragma once

#include <cstdint>

namespace ferry {

enum class StorageEngine : std::uint8_t {
  automatic,  // io_uring if the kernel allows it
  io_uring,   // io_uring or an error
  threads,    // blocking calls
};

}  // namespace ferry
