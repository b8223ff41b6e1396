#include "storage/write_turns.hpp"

#include <map>
#include <utility>

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

std::shared_ptr<WriteTurns> WriteTurns::of(dev_t device, ino_t inode) {
  // Of the process, as the page cache that they protect is the machine's.
  static std::mutex mutex;
  static std::map<std::pair<dev_t, ino_t>, std::weak_ptr<WriteTurns>> known;
  const std::lock_guard lock(mutex);
  std::erase_if(known, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<WriteTurns>& entry = known[{device, inode}];
  std::shared_ptr<WriteTurns> turns = entry.lock();
  if (turns == nullptr) entry = turns = std::make_shared<WriteTurns>();
  return turns;
}

}  // namespace ferry::storage
