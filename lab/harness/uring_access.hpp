// A plain loop over io_uring, as a baseline.
#pragma once

#include <memory>
#include <string>

#include "harness/file_access.hpp"

namespace ferry::bench {

// One ring for each thread, as deep as the cell's queue; nothing is registered. Each wait hands
// over what was started since the last, so that a transfer costs one system call. Setting up the
// ring counts as opening; open() throws ferry::Error where there is no io_uring.
std::unique_ptr<FileAccess> make_uring_access(const Cell& cell, std::string path);

}  // namespace ferry::bench
