#include "storage/posix/write_turns.hpp"

#include <map>
#include <utility>

#include "base/forks.hpp"

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

namespace {

// Per process, although the page cache is the machine's. A child of fork() has its own turns: its
// parent's transfers in flight never end there.
struct KnownTurns {
  std::mutex mutex;
  std::map<std::pair<dev_t, ino_t>, std::weak_ptr<WriteTurns>> by_inode;
};

}  // namespace

std::shared_ptr<WriteTurns> WriteTurns::of(dev_t device, ino_t inode) {
  auto& known = of_this_process<KnownTurns>();
  const std::lock_guard lock(known.mutex);
  std::erase_if(known.by_inode, [](const auto& entry) { return entry.second.expired(); });
  std::weak_ptr<WriteTurns>& entry = known.by_inode[{device, inode}];
  std::shared_ptr<WriteTurns> turns = entry.lock();
  if (turns == nullptr) entry = turns = std::make_shared<WriteTurns>();
  return turns;
}

}  // namespace ferry::storage
