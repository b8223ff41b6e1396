#include "storage/late_changes.hpp"

#include <map>

#include "base/forks.hpp"

namespace ferry::storage {
namespace {

struct Known {
  std::mutex mutex;
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::weak_ptr<LateChanges>> files;
  std::size_t sweep_at = 64;  // at this number, unused ones are dropped
};

}  // namespace

std::shared_ptr<LateChanges> LateChanges::of(std::uint64_t device, std::uint64_t inode) {
  auto& known = of_this_process<Known>();
  const std::lock_guard lock(known.mutex);
  if (known.files.size() >= known.sweep_at) {
    std::erase_if(known.files, [](const auto& entry) { return entry.second.expired(); });
    known.sweep_at = 2 * known.files.size() + 64;
  }
  std::weak_ptr<LateChanges>& entry = known.files[{device, inode}];
  std::shared_ptr<LateChanges> changes = entry.lock();
  if (changes == nullptr) entry = changes = std::make_shared<LateChanges>();
  return changes;
}

int LateChanges::error() const {
  const std::lock_guard lock(mutex_);
  return error_;
}

void LateChanges::begin(int error) {
  const std::lock_guard lock(mutex_);
  if (out_++ == 0) error_ = error;
}

void LateChanges::end() {
  const std::lock_guard lock(mutex_);
  if (--out_ == 0) error_ = 0;
}

}  // namespace ferry::storage
