#include "fuse/gathered_writes.hpp"

#include "base/direction.hpp"

namespace ferry::fuse {

std::int64_t GatheredWrites::write(storage::SyncCalls& calls, WrittenFile& by, std::uint64_t offset,
                                   std::span<const char> data, bool at_once) {
  const std::lock_guard lock(mutex_);
  at_once = at_once || !gathers_;
  const bool follows = offset == by.end;
  const bool fits = bytes_.size() + data.size() <= bytes_max;
  if (at_once || !follows || !fits || writer_ != &by) settle_locked(calls);
  if (const std::int64_t error = by.late_error.exchange(0); error != 0) return error;
  if (at_once || !follows || data.size() >= bytes_max) {
    // All of it or an error: the kernel looks at no length where it writes a mapping's pages.
    const std::int64_t moved = calls.transfer(*by.file, Direction::write,
                                              const_cast<char*>(data.data()), data.size(), offset);
    if (moved >= 0) by.end = offset + data.size();
    return moved;
  }
  if (bytes_.empty()) {
    writer_ = &by;
    offset_ = offset;
    ++gathering_;
  }
  bytes_.insert(bytes_.end(), data.begin(), data.end());
  by.end = offset + data.size();
  return static_cast<std::int64_t>(data.size());
}

void GatheredWrites::settle(storage::SyncCalls& calls) {
  const std::lock_guard lock(mutex_);
  settle_locked(calls);
}

void GatheredWrites::leave(storage::SyncCalls& calls, const WrittenFile& by) {
  const std::lock_guard lock(mutex_);
  settle_locked(calls);
  if (writer_ != &by) return;
  writer_ = nullptr;
  std::vector<char>().swap(bytes_);
}

void GatheredWrites::settle_locked(storage::SyncCalls& calls) {
  if (bytes_.empty()) return;
  const std::int64_t result =
      calls.transfer(*writer_->file, Direction::write, bytes_.data(), bytes_.size(), offset_);
  if (result < 0) writer_->late_error = result;
  bytes_.clear();
  --gathering_;
}

}  // namespace ferry::fuse
