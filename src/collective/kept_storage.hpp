// The storages of collective files, by their paths.
#pragma once

#include <memory>
#include <string>

#include "storage/storage.hpp"

namespace ferry::collective {

// For a URI: the process's own storage, which stays until MPI_Finalize. Connecting to servers takes
// longer than many a transfer, and what a client has read is there for the next open. For a path,
// in a program of MPI sessions, and after that: a new one. Thread-safe.
std::shared_ptr<storage::Storage> storage_for(const std::string& path);

// At MPI_Finalize. Files that are still open have it until they are closed.
void release_kept_storage();

}  // namespace ferry::collective
