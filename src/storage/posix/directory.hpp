// Directories of mounted file systems.
#pragma once

#include <cstdint>
#include <vector>

#include "storage/storage.hpp"

namespace ferry::storage {

// Adds the directory's entries to `entries`, or nothing. Blocks. Returns 0 or a negative errno.
std::int64_t list_directory(const char* path, std::vector<DirectoryEntry>& entries);

}  // namespace ferry::storage
