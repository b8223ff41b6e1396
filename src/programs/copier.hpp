// Copies one file between any two storages: several requests in flight, verified by reading back,
// without ever leaving a partial file at the destination.
#pragma once

#include <atomic>
#include <cerrno>
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
  double copy_s = 0;    // until all is written
  double sync_s = 0;    // and durable
  double verify_s = 0;  // and read back
};

struct CopyOptions {
  std::string from;
  std::string to;
  bool overwrite = false;
  // Permission bits of the source that a new file does not get. The process's own umask must be 0.
  std::uint32_t umask = 0;
  // Called regularly with the bytes done and in all, for copying and then for verifying.
  std::function<void(const char* phase, std::uint64_t done, std::uint64_t total)> progress;
  // Called with the file about to be made beside the destination.
  std::function<void(const std::string& path)> scratch;
  // Called with an existing destination about to be overwritten in place.
  std::function<void(const std::string& path)> in_place;
};

// What a failed copy could not undo. Empty: nothing.
struct Remains {
  std::string scratch;     // could not be removed
  std::string incomplete;  // was overwritten in place, and is incomplete
};

// Files that cannot be copied: a sentence with what to do.
class CopyRefusal : public Error {
 public:
  explicit CopyRefusal(const std::string& sentence) : Error(EINVAL, sentence) {}
};

inline CopyRefusal not_a_regular_file(const std::string& path) {
  return CopyRefusal(path + " is not a regular file; cp copies regular files only");
}

class CopyError : public Error {
 public:
  CopyError(const std::system_error& error, Remains remains)
      : Error(error.code().value(), text_of(error)),
        refused_(dynamic_cast<const CopyRefusal*>(&error) != nullptr),
        remains_(std::move(remains)) {}
  // A refusal without the text of its errno, which would stand behind what to do.
  std::string message() const { return refused_ ? reason() : what(); }
  const Remains& remains() const { return remains_; }

 private:
  static std::string text_of(const std::system_error& error) {
    const auto* ours = dynamic_cast<const Error*>(&error);
    return ours != nullptr ? ours->reason() : error.what();
  }
  bool refused_;
  Remains remains_;
};

// Copies the source up to its end. Writes a new file beside the destination, makes it durable,
// compares it with the source's contents, and renames it. On failure, removes that file and leaves
// the destination as it was. Overwrites an existing destination in place if it has several names,
// or an owner or folder that does not allow replacement. Follows a link; refuses other than regular
// files, and the source itself. Another thread may set `stopped` to end the copy. Throws CopyError
// (EINTR: stopped; EBADMSG: verification failed; ESTALE: the source changed) and std::system_error.
CopyReport copy_file(storage::Storage& storage, const CopyOptions& options,
                     const std::atomic<bool>& stopped);

}  // namespace ferry::bench
