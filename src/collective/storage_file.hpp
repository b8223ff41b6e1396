// One rank's handle of the shared file: a storage, a queue on it, and batches of transfers in
// flight.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <sys/uio.h>

#include <ferry/collective.hpp>

#include "storage/storage.hpp"

namespace ferry::collective {

// Transfers that are waited for together.
class Batch {
 public:
  Batch() = default;
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

 private:
  friend class StorageFile;
  struct Transfer : storage::Operation {
    std::vector<iovec> wanted;
    std::vector<iovec> rest;  // what the operation names; the storage may change it
    std::int64_t bytes = 0;
    std::int64_t moved = 0;
    Batch* batch = nullptr;
  };
  // One to start: those that are over are used again, so that many small transfers take no more
  // memory than are in flight at once.
  Transfer& next();

  std::deque<Transfer> transfers_;
  std::vector<Transfer*> over_;  // of these
  unsigned pending_ = 0;
  int error_ = 0;
};

class StorageFile {
 public:
  // `storage` must outlive it. Counts into `counts`. write_out: Options::write_out.
  StorageFile(storage::Storage& storage, Counts& counts, bool write_out);
  ~StorageFile();
  StorageFile(const StorageFile&) = delete;
  StorageFile& operator=(const StorageFile&) = delete;

  // These return 0 or an errno.
  // With a layout the file must not be there yet (O_CREAT | O_EXCL); it becomes the granted one.
  int open(const std::string& path, int flags, unsigned mode, storage::Layout* layout = nullptr);
  // That of the file at `path`; EOPNOTSUPP where nothing is striped. Needs no open file.
  int layout(const std::string& path, storage::Layout& layout);
  // Asks the storage what is at `path`, so that it connects to whatever it has to; no matter what
  // it says.
  void ask_for(const std::string& path);
  int close();
  int sync();
  int resize(std::int64_t size_bytes);
  int status(storage::Status& status);
  bool is_open() const { return file_ != nullptr; }

  // Starts a transfer of what the vectors name; at most `vectors_max` of them. The memory must stay
  // until finish() has returned. Waits where too many are in flight already.
  void start(Batch& batch, storage::Kind kind, std::int64_t offset, std::span<const iovec> vectors);
  // Sends what was started on its way.
  void flush() { queue_->flush(); }
  // Waits for all transfers of the batch and empties it. The first error: an errno, or ENODATA for
  // a read that met the end of the file.
  int finish(Batch& batch);

  static constexpr std::size_t vectors_max = 1024;  // IOV_MAX of Linux
  static constexpr std::int64_t bytes_max =
      16 << 20;  // of one request; more of them keep the medium busy
  static constexpr unsigned depth = 32;

 private:
  int run(storage::Operation& operation);
  storage::Operation& next();
  void settle(storage::Operation& operation);

  Counts& counts_;
  const bool write_out_;
  std::uint32_t word_ = 0;
  std::unique_ptr<storage::Queue> queue_;
  storage::File* file_ = nullptr;
  unsigned in_flight_ = 0;
};

}  // namespace ferry::collective
