// Blocking calls to a storage, and a file by such calls. Results are bytes or 0, or a negative
// errno.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "storage/storage.hpp"

namespace ferry::storage {

// Blocking calls, with their own queue and doorbell. Not thread-safe: one thread at a time. A call
// lasts as long as the storage takes; Capabilities::request_timeout bounds that for storages whose
// servers may fall silent.
class SyncCalls {
 public:
  // Called where nothing has finished yet; `again`: not for the first time in a call. True: it has
  // let something else go on, and the call looks again; false: the call sleeps.
  using Pause = bool(bool again);

  // `storage` outlives it. The options' doorbell is not used. `pause` may be null.
  explicit SyncCalls(Storage& storage, QueueOptions options = {.depth = 64},
                     Pause* pause = nullptr);
  SyncCalls(const SyncCalls&) = delete;
  SyncCalls& operator=(const SyncCalls&) = delete;

  // Executes one operation with nothing else in flight; returns its result.
  std::int64_t run(Operation& operation);
  std::int64_t run(Operation&& operation) { return run(operation); }
  // Continues until all bytes are moved, a read reaches the end of the file, or an error, which
  // hides the bytes moved before it.
  std::int64_t transfer(File& file, Direction direction, void* data, std::uint64_t bytes,
                        std::uint64_t offset);

  // Submit here to have several operations in flight.
  Queue& queue() { return *queue_; }
  // A finished one of them. The second returns null when none has finished after `timeout`.
  Operation& next();
  Operation* next_within(std::chrono::nanoseconds timeout);

 private:
  Pause* const pause_;
  std::uint32_t doorbell_ = 0;
  std::unique_ptr<Queue> queue_;
};

// A file, open or not. Not thread-safe, like the calls that it makes.
class SyncFile {
 public:
  explicit SyncFile(SyncCalls& calls) : calls_(calls) {}
  // Makes its own calls to `storage`, which must outlive it.
  explicit SyncFile(Storage& storage) : own_(std::make_unique<SyncCalls>(storage)), calls_(*own_) {}
  // Closes an open file and ignores errors; close() reports late write errors.
  ~SyncFile();
  SyncFile(const SyncFile&) = delete;
  SyncFile& operator=(const SyncFile&) = delete;

  // No file may be open. `layout`: see Kind::open.
  std::int64_t open(const std::string& path, int flags, std::uint32_t mode = 0,
                    Layout* layout = nullptr);
  bool is_open() const { return file_ != nullptr; }
  File* get() const { return file_.get(); }

  // Move all bytes; a read moves fewer only at the end of the file.
  std::int64_t read(void* data, std::uint64_t bytes, std::uint64_t offset);
  std::int64_t write(const void* data, std::uint64_t bytes, std::uint64_t offset);
  std::int64_t sync() { return run(Kind::sync); }
  std::int64_t truncate(std::uint64_t bytes) { return run(Kind::truncate, bytes); }
  std::int64_t status(Status& status);
  // It is closed with any result.
  std::int64_t close();

 private:
  std::int64_t run(Kind kind, std::uint64_t offset = 0);

  const std::unique_ptr<SyncCalls> own_;
  SyncCalls& calls_;
  std::unique_ptr<File> file_;
};

// Returns the result of a call, or throws ferry::Error with `what` for a negative errno.
std::int64_t checked(std::int64_t result, const std::string& what);

}  // namespace ferry::storage
