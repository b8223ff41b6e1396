// One rank's handle of the shared file: a storage with a queue, and batches of transfers in flight.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include <sys/uio.h>

#include <ferry/collective.hpp>

#include "storage/sync_file.hpp"

namespace ferry::collective {

class StorageFile;

// Transfers to wait for together. Waits in its destructor, too, so that none outlives its memory.
class Batch {
 public:
  Batch() = default;
  ~Batch();
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

 private:
  friend class StorageFile;
  struct Transfer : storage::Operation {
    std::vector<iovec> wanted;
    std::vector<iovec> rest;  // the operation's vectors; the storage may change them
    std::int64_t bytes = 0;
    std::int64_t moved = 0;
    Batch* batch = nullptr;
  };
  // A free one: finished ones are reused, so that memory is limited by the transfers in flight.
  Transfer& next();

  std::deque<Transfer> transfers_;
  std::vector<Transfer*> over_;  // of these
  StorageFile* file_ = nullptr;  // of those in flight
  unsigned pending_ = 0;
  int error_ = 0;
};

// Results are 0 or an errno.
class StorageFile {
 public:
  // `storage` and `write_out` must outlive it. Adds to `counts`. write_out: whether the medium
  // begins with writes at once; read by each of them. changes_threads: whether several threads use
  // it, one after another.
  StorageFile(storage::Storage& storage, Counts& counts,
              std::reference_wrapper<const bool> write_out, bool changes_threads)
      : counts_(counts),
        write_out_(write_out),
        calls_(storage, {.depth = 2 * depth, .changes_threads = changes_threads}, &pause) {}

  // With a layout the file must not exist (O_CREAT | O_EXCL); `layout` becomes the granted one.
  int open(const std::string& path, int flags, unsigned mode, storage::Layout* layout = nullptr);
  // The layout of the file at `path`; EOPNOTSUPP if not striped. Needs no open file.
  int layout(const std::string& path, storage::Layout& layout);
  // Asks the storage for `path` to make it connect; ignores the answer.
  void ask_for(const std::string& path);
  // Null: none is.
  const storage::File* opened() const { return file_.get(); }
  // The errno that a change of this rank would get because an earlier one may still come.
  int late_change() const { return file_.is_open() ? -file_.get()->late_change() : 0; }
  int close() { return errno_of(file_.close()); }
  int sync() { return errno_of(file_.sync()); }
  int resize(std::int64_t bytes) {
    return errno_of(file_.truncate(static_cast<std::uint64_t>(bytes)));
  }
  int status(storage::Status& status) { return errno_of(file_.status(status)); }

  // Has a large read wait for others, instead of being in flight beside them. The kernel reads
  // ahead for one reader of an open file: two at once make it begin anew each time.
  void set_reads_in_order(bool in_order) { reads_in_order_ = in_order; }

  // Starts a transfer of at most `vectors_max` vectors. The memory must stay valid until finish()
  // returns. Waits if too many are in flight.
  void start(Batch& batch, storage::Kind kind, std::int64_t offset, std::span<const iovec> vectors);
  // Submits what was started.
  void flush() { calls_.queue().flush(); }
  // Waits for all transfers of the batch and empties it. Returns the first error: an errno, or
  // ENODATA for a read at the end of the file.
  int finish(Batch& batch);

  // One such transfer of a piece of at most `bytes_max`, while no other is in flight.
  int move(storage::Kind kind, std::int64_t offset, std::byte* data, std::int64_t bytes);

  static constexpr std::size_t vectors_max = 1024;  // IOV_MAX of Linux
  static constexpr std::int64_t bytes_max =
      16 << 20;  // size of one request; more of them keep the medium busy
  static constexpr unsigned depth = 32;
  static constexpr std::int64_t read_ahead_bytes_min = 256 << 10;

 private:
  static int errno_of(std::int64_t result) { return result < 0 ? static_cast<int>(-result) : 0; }
  void settle(storage::Operation& operation);
  static bool pause(bool again);

  Counts& counts_;
  std::reference_wrapper<const bool> write_out_;
  storage::SyncCalls calls_;
  storage::SyncFile file_{calls_};
  unsigned in_flight_ = 0;
  bool reads_in_order_ = false;
};

}  // namespace ferry::collective
