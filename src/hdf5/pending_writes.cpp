#include "hdf5/pending_writes.hpp"

#include <algorithm>
#include <utility>

namespace ferry::hdf5 {
namespace {

bool overlap(std::uint64_t offset, std::uint64_t bytes, std::uint64_t other,
             std::uint64_t other_bytes) {
  return offset < other + other_bytes && other < offset + bytes;
}

}  // namespace

PendingWrites::~PendingWrites() {
  send_gathered();
  while (!in_flight_.empty())
    end_first();
}

void PendingWrites::write(const WritePiece& piece) {
  reap();
  if (error_ != nullptr && !std::exchange(is_told_, true)) std::rethrow_exception(error_);
  std::uint64_t done = 0;
  while (done < piece.bytes) {
    const std::uint64_t offset = piece.offset + done;
    const bool follows = !gathered_.empty() && offset == gathered_offset_ + gathered_.size();
    if (!follows || gathered_.size() == request_bytes_max) {
      send_gathered();
      gathered_offset_ = offset;
    }
    const std::uint64_t bytes = std::min(piece.bytes - done, request_bytes_max - gathered_.size());
    gathered_.insert(gathered_.end(), piece.data + done, piece.data + done + bytes);
    done += bytes;
  }
  if (gathered_.size() == request_bytes_max) send_gathered();
}

bool PendingWrites::is_in_flight(std::uint64_t offset, std::uint64_t bytes) const {
  return std::any_of(in_flight_.begin(), in_flight_.end(), [&](const Request& request) {
    return overlap(offset, bytes, request.offset, request.data.size());
  });
}

bool PendingWrites::has(std::uint64_t offset, std::uint64_t bytes) const {
  return overlap(offset, bytes, gathered_offset_, gathered_.size()) || is_in_flight(offset, bytes);
}

void PendingWrites::send_gathered() {
  if (gathered_.empty()) return;
  Request request{gathered_offset_, std::exchange(gathered_, {}), {}};
  while (is_in_flight(request.offset, request.data.size()))
    end_first();
  while (in_flight_.size() == requests_max ||
         (!in_flight_.empty() && memory_bytes_ + request.data.size() > memory_bytes_max)) {
    end_first();
  }
  try {
    request.future = file_.write_at_async(request.data.data(), request.data.size(), request.offset);
  } catch (...) {
    fail(request.offset, request.data.size());
    return;
  }
  memory_bytes_ += request.data.size();
  in_flight_.push_back(std::move(request));
}

void PendingWrites::end_first() {
  const Request request = std::move(in_flight_.front());
  in_flight_.pop_front();
  memory_bytes_ -= request.data.size();
  try {
    request.future.get();
  } catch (...) {
    fail(request.offset, request.data.size());
  }
}

void PendingWrites::reap() {
  while (!in_flight_.empty() && in_flight_.front().future.ready())
    end_first();
}

// In a handler of the exception.
void PendingWrites::fail(std::uint64_t offset, std::uint64_t bytes) {
  if (error_ == nullptr) error_ = std::current_exception();
  failed_.push_back({offset, bytes});
}

void PendingWrites::settle(std::uint64_t offset, std::uint64_t bytes) {
  if (overlap(offset, bytes, gathered_offset_, gathered_.size())) send_gathered();
  while (is_in_flight(offset, bytes))
    end_first();
}

void PendingWrites::check(std::uint64_t offset, std::uint64_t bytes) const {
  for (const FailedRange& range : failed_) {
    if (overlap(offset, bytes, range.offset, range.bytes)) std::rethrow_exception(error_);
  }
}

void PendingWrites::settle_all() {
  send_gathered();
  while (!in_flight_.empty())
    end_first();
  if (error_ == nullptr) return;
  is_told_ = true;
  std::rethrow_exception(error_);
}

}  // namespace ferry::hdf5
