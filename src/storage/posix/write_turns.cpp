#include "storage/posix/write_turns.hpp"

namespace ferry::storage {

bool WriteTurns::try_begin_direct() {
  const std::lock_guard lock(mutex_);
  if (buffered_ > 0) return false;
  ++direct_;
  return true;
}

void WriteTurns::end_direct() {
  const std::lock_guard lock(mutex_);
  if (--direct_ == 0) no_direct_.notify_all();
}

void WriteTurns::begin_buffered() {
  std::unique_lock lock(mutex_);
  ++buffered_;
  no_direct_.wait(lock, [this] { return direct_ == 0; });
}

void WriteTurns::end_buffered() {
  const std::lock_guard lock(mutex_);
  --buffered_;
}

}  // namespace ferry::storage
