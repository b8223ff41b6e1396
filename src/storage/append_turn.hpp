// Appends to a file on a server take turns: each asks where the file ends, and then writes there.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>

#include "storage/of_inode.hpp"

namespace ferry::storage {

struct AppendTurn {
  // The same for every opening of the file in this process, as Status names it, whichever storage
  // opened it.
  static std::shared_ptr<AppendTurn> of(std::uint64_t device, std::uint64_t inode) {
    return of_inode<AppendTurn>(device, inode);
  }

  std::mutex mutex;
};

}  // namespace ferry::storage
