#include "collective/storage_file.hpp"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/caught_error.hpp"
#include "collective/orders.hpp"

namespace ferry::collective {

using storage::Kind;
using storage::Operation;

bool StorageFile::pause(bool again) {
  return Orders::pause(again);
}

Batch::~Batch() {
  if (pending_ > 0) file_->finish(*this);
}

Batch::Transfer& Batch::next() {
  if (over_.empty()) {
    over_.reserve(transfers_.size() + 1);  // settle() needs no memory
    return transfers_.emplace_back();
  }
  Transfer& transfer = *over_.back();
  over_.pop_back();
  static_cast<Operation&>(transfer) = Operation();
  transfer.bytes = 0;
  transfer.moved = 0;
  return transfer;
}

int StorageFile::open(const std::string& path, int flags, unsigned mode, storage::Layout* layout) {
  const int error = errno_of(file_.open(path, flags, mode, layout));
  if (error == 0) ++counts_.storage_opens;
  return error;
}

int StorageFile::layout(const std::string& path, storage::Layout& layout) {
  return errno_of(calls_.run({.kind = Kind::path_layout, .path = path.c_str(), .layout = &layout}));
}

void StorageFile::ask_for(const std::string& path) {
  calls_.run({.kind = Kind::path_status, .path = path.c_str()});
}

void StorageFile::start(Batch& batch, Kind kind, std::int64_t offset,
                        std::span<const iovec> vectors) {
  std::int64_t bytes = 0;
  for (const iovec& vector : vectors)
    bytes += static_cast<std::int64_t>(vector.iov_len);
  const bool waits = kind == Kind::read && reads_in_order_ && bytes >= read_ahead_bytes_min;
  while (in_flight_ >= (waits ? 1 : depth))
    settle(calls_.next());
  Batch::Transfer& transfer = batch.next();
  transfer.wanted.assign(vectors.begin(), vectors.end());
  transfer.rest = transfer.wanted;
  transfer.bytes = bytes;
  transfer.batch = &batch;
  transfer.kind = kind;
  transfer.file = file_.get();
  transfer.offset = offset;
  transfer.vectors = transfer.rest;
  transfer.sync_follows = write_out_;
  counts_.storage_bytes += static_cast<std::uint64_t>(transfer.bytes);
  ++counts_.storage_requests;
  batch.file_ = this;
  calls_.queue().submit(transfer);  // without memory it throws, and has nothing
  ++batch.pending_;
  ++in_flight_;
}

// A short transfer is continued, which shows why it was short.
void StorageFile::settle(Operation& operation) {
  auto& transfer = static_cast<Batch::Transfer&>(operation);  // nothing else is in flight
  Batch& batch = *transfer.batch;
  if (transfer.result > 0) transfer.moved += transfer.result;
  if (transfer.result > 0 && transfer.moved < transfer.bytes) {
    transfer.offset += transfer.result;
    auto skip = static_cast<std::size_t>(transfer.moved);
    transfer.rest.clear();
    for (const iovec& vector : transfer.wanted) {
      const std::size_t skipped = std::min(skip, vector.iov_len);
      skip -= skipped;
      if (skipped == vector.iov_len) continue;
      transfer.rest.push_back(
          {static_cast<char*>(vector.iov_base) + skipped, vector.iov_len - skipped});
    }
    transfer.vectors = transfer.rest;
    ++counts_.storage_requests;
    try {
      calls_.queue().submit(transfer);
      return;
    } catch (...) {
      transfer.result = -caught_error();
    }
  }
  if (transfer.moved < transfer.bytes && batch.error_ == 0) {
    const int nothing = transfer.kind == Kind::read ? ENODATA : EIO;
    batch.error_ = transfer.result < 0 ? static_cast<int>(-transfer.result) : nothing;
  }
  batch.over_.push_back(&transfer);
  --batch.pending_;
  --in_flight_;
}

int StorageFile::move(Kind kind, std::int64_t offset, std::byte* data, std::int64_t bytes) {
  counts_.storage_bytes += static_cast<std::uint64_t>(bytes);
  for (std::int64_t moved = 0; moved < bytes;) {
    iovec vector{data + moved, static_cast<std::size_t>(bytes - moved)};
    Operation operation{.kind = kind, .file = file_.get(), .offset = offset + moved};
    operation.vectors = std::span(&vector, 1);
    operation.sync_follows = write_out_;
    ++counts_.storage_requests;
    const std::int64_t result = calls_.run(operation);
    if (result < 0) return errno_of(result);
    if (result == 0) return kind == Kind::read ? ENODATA : EIO;
    moved += result;
  }
  return 0;
}

int StorageFile::finish(Batch& batch) {
  while (batch.pending_ > 0)
    settle(calls_.next());
  batch.over_.clear();
  batch.transfers_.clear();
  return std::exchange(batch.error_, 0);
}

}  // namespace ferry::collective
