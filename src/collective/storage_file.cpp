#include "collective/storage_file.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <utility>

namespace ferry::collective {

using storage::Kind;
using storage::Operation;

Batch::Transfer& Batch::next() {
  if (over_.empty()) return transfers_.emplace_back();
  Transfer& transfer = *over_.back();
  over_.pop_back();
  static_cast<Operation&>(transfer) = Operation();
  transfer.bytes = 0;
  transfer.moved = 0;
  return transfer;
}

StorageFile::StorageFile(storage::Storage& storage, Counts& counts, bool write_out)
    : counts_(counts), write_out_(write_out) {
  storage::QueueOptions options;
  options.doorbell = storage::Doorbell{&word_};
  options.depth = 2 * depth;
  queue_ = storage.make_queue(options);
}

StorageFile::~StorageFile() {
  if (file_ != nullptr) close();
}

Operation& StorageFile::next() {
  for (;;) {
    const std::uint32_t seen = std::atomic_ref<std::uint32_t>(word_).load();
    queue_->flush();
    if (Operation* operation = queue_->reap()) return *operation;
    queue_->wait(seen, std::chrono::seconds(1));
  }
}

// Nothing else is in flight: only batches overlap, and they have ended.
int StorageFile::run(Operation& operation) {
  queue_->submit(operation);
  while (&next() != &operation) {
  }
  return operation.result < 0 ? static_cast<int>(-operation.result) : 0;
}

int StorageFile::open(const std::string& path, int flags, unsigned mode, storage::Layout* layout) {
  Operation operation;
  operation.kind = Kind::open;
  operation.path = path.c_str();
  operation.flags = flags;
  operation.mode = mode;
  operation.layout = layout;
  const int error = run(operation);
  file_ = operation.opened.release();
  if (error == 0) ++counts_.storage_opens;
  return error;
}

int StorageFile::layout(const std::string& path, storage::Layout& layout) {
  Operation operation;
  operation.kind = Kind::path_layout;
  operation.path = path.c_str();
  operation.layout = &layout;
  return run(operation);
}

void StorageFile::ask_for(const std::string& path) {
  Operation operation;
  operation.kind = Kind::path_status;
  operation.path = path.c_str();
  run(operation);
}

int StorageFile::close() {
  Operation operation;
  operation.kind = Kind::close;
  operation.file = file_;
  file_ = nullptr;
  return run(operation);
}

int StorageFile::sync() {
  Operation operation;
  operation.kind = Kind::sync;
  operation.file = file_;
  return run(operation);
}

int StorageFile::resize(std::int64_t size_bytes) {
  Operation operation;
  operation.kind = Kind::truncate;
  operation.file = file_;
  operation.offset = size_bytes;
  return run(operation);
}

int StorageFile::status(storage::Status& status) {
  Operation operation;
  operation.kind = Kind::file_status;
  operation.file = file_;
  const int error = run(operation);
  status = operation.status;
  return error;
}

void StorageFile::start(Batch& batch, Kind kind, std::int64_t offset,
                        std::span<const iovec> vectors) {
  while (in_flight_ >= depth)
    settle(next());
  Batch::Transfer& transfer = batch.next();
  transfer.wanted.assign(vectors.begin(), vectors.end());
  transfer.rest = transfer.wanted;
  for (const iovec& vector : vectors)
    transfer.bytes += static_cast<std::int64_t>(vector.iov_len);
  transfer.batch = &batch;
  transfer.kind = kind;
  transfer.file = file_;
  transfer.offset = offset;
  transfer.vectors = transfer.rest;
  transfer.sync_follows = write_out_;
  counts_.storage_bytes += static_cast<std::uint64_t>(transfer.bytes);
  ++counts_.storage_requests;
  ++batch.pending_;
  ++in_flight_;
  queue_->submit(transfer);
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
    queue_->submit(transfer);
    return;
  }
  if (transfer.moved < transfer.bytes && batch.error_ == 0) {
    const int nothing = transfer.kind == Kind::read ? ENODATA : EIO;
    batch.error_ = transfer.result < 0 ? static_cast<int>(-transfer.result) : nothing;
  }
  batch.over_.push_back(&transfer);
  --batch.pending_;
  --in_flight_;
}

int StorageFile::finish(Batch& batch) {
  while (batch.pending_ > 0)
    settle(next());
  batch.over_.clear();
  batch.transfers_.clear();
  return std::exchange(batch.error_, 0);
}

}  // namespace ferry::collective
