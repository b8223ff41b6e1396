// A read, write or sync of an NFS file, split into requests over several connections.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "storage/nfs/file.hpp"
#include "storage/nfs/rpc.hpp"
#include "storage/queue/inbox_queue.hpp"

namespace ferry::storage {

// One request. Belongs to the thread of one connection until it is finished.
struct NfsPiece {
  std::uint64_t offset = 0;
  std::size_t bytes = 0;
  std::size_t moved = 0;
  // Its bytes: from byte `skip` of vector `first` on.
  std::size_t first = 0;
  std::size_t skip = 0;
  int error = 0;
  bool begun = false;
  NfsClock::time_point begin;       // first given to the server
  NfsClock::time_point queued;      // given to the connection
  NfsClock::time_point not_before;  // the server asked for a pause
};

class NfsTransfer {
 public:
  NfsTransfer(Operation& operation, Inbox& inbox);

  std::vector<NfsPiece>& pieces() { return pieces_; }
  Kind kind() const { return kind_; }
  bool sync_follows() const { return sync_follows_; }
  NfsFile& file() { return file_; }  // which may be destroyed once the operation is over
  // These stay.
  NfsWrites& writes() const { return *writes_; }
  const std::shared_ptr<LateChanges>& changes() const { return changes_; }

  // The memory of the rest of a piece to write: the caller's, or `gathered` if that is not
  // contiguous.
  const char* source(const NfsPiece& piece, std::vector<char>& gathered) const;
  // Copies read bytes to their place in the rest of the piece.
  void take(const NfsPiece& piece, const char* data, std::size_t bytes) const;

  // The piece is done: it has moved what it could and has its error. The operation may end with
  // this; do not touch it any more.
  void finish_piece();

  // Requests an early end, which the connections notice. Thread-safe.
  void cancel() { cancelled_.store(true, std::memory_order_relaxed); }
  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }
  std::uint64_t commit_begun = 0;

 private:
  // Calls use(memory, bytes) for each stretch of memory of the piece, from its `moved` on.
  template <class Use>
  void each_stretch(const NfsPiece& piece, std::size_t bytes, Use use) const;
  std::int64_t result() const;

  Operation& operation_;
  Inbox& inbox_;
  NfsFile& file_;
  const std::shared_ptr<NfsWrites> writes_;
  const std::shared_ptr<LateChanges> changes_;
  const Kind kind_;
  const bool sync_follows_;
  const std::span<const iovec> vectors_;
  std::vector<NfsPiece> pieces_;
  std::atomic<std::size_t> left_;
  std::atomic<bool> cancelled_{false};
};

// One piece of one transfer.
struct NfsPieceOf {
  std::shared_ptr<NfsTransfer> transfer;
  std::size_t index = 0;
  NfsPiece& piece() const { return transfer->pieces()[index]; }
};

}  // namespace ferry::storage
