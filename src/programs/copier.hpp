// Copies one file between any two storages: several requests in flight, verified by reading back,
// and never a half-written file at the destination.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <system_error>
#include <utility>

#include <ferry/error.hpp>

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
  // What a new file does not get of the source's permissions. The process itself must have none.
  std::uint32_t umask = 0;
  // Told now and then how many bytes of how many have been copied, and then verified.
  std::function<void(const char* phase, std::uint64_t done, std::uint64_t total)> progress;
  // Told of the file that is about to be made beside the destination.
  std::function<void(const std::string& path)> scratch;
  // Told of an existing destination that is about to be overwritten in place.
  std::function<void(const std::string& path)> in_place;
};

// What a copy that failed could not undo. Empty: nothing.
struct Remains {
  std::string scratch;     // this file could not be removed
  std::string incomplete;  // this file, which was overwritten in place, has not all of it
};

class CopyError : public Error {
 public:
  CopyError(const std::system_error& error, Remains remains)
      : Error(error.code().value(), text_of(error)), remains_(std::move(remains)) {}
  const Remains& remains() const { return remains_; }

 private:
  static std::string text_of(const std::system_error& error) {
    const auto* ours = dynamic_cast<const Error*>(&error);
    return ours != nullptr ? ours->reason() : error.what();
  }
  Remains remains_;
};

// Copies all that the source has up to its end. Writes into a new file beside the destination,
// makes that durable, compares it with what was read, and renames it. Whatever goes wrong, that
// file is removed and the destination is as it was. An existing destination that has several names,
// or an owner or a folder that do not allow this, is written in place. A link is followed; what is
// no regular file is refused, and so is the source itself.
// `stopped` may be set by another thread, and ends the copy.
// Throws CopyError (EINTR when stopped; EBADMSG when what is read back differs, ESTALE when the
// source changed meanwhile) and std::system_error.
CopyReport copy_file(storage::Storage& storage, const CopyOptions& options,
                     const std::atomic<bool>& stopped);

}  // namespace ferry::bench
