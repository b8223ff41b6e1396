// Copies one file between any two storages: several requests in flight, verified by reading back,
// and never a half-written file at the destination.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "storage/storage.hpp"

namespace ferry::bench {

struct CopyReport {
  std::uint64_t bytes = 0;
  double copy_s = 0;    // until everything was written
  double sync_s = 0;    // and durable
  double verify_s = 0;  // and read back
};

struct CopyOptions {
  std::string from;
  std::string to;
  bool overwrite = false;
  // Told now and then how many bytes of how many have been copied, and then verified.
  std::function<void(const char* phase, std::uint64_t done, std::uint64_t total)> progress;
};

// Writes into a new file beside the destination, makes that durable, compares it with what was
// read, and renames it. Whatever goes wrong, that file is removed and the destination is as it was.
// `stopped` may be set by another thread, and ends the copy.
// Throws ferry::Error (EINTR when stopped; EBADMSG when what is read back differs, ESTALE when the
// source changed meanwhile) and std::system_error.
CopyReport copy_file(storage::Storage& storage, const CopyOptions& options,
                     const std::atomic<bool>& stopped);

}  // namespace ferry::bench
