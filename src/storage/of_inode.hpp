// What all openings of a file in this process share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>

#include "base/forks.hpp"

namespace ferry::storage {

// The Value of an inode: the same for all who ask, for as long as one of them has it. A child of
// fork() has its own. Thread-safe.
template <class Value>
std::shared_ptr<Value> of_inode(std::uint64_t device, std::uint64_t inode) {
  struct Known {
    std::mutex mutex;
    std::map<std::pair<std::uint64_t, std::uint64_t>, std::weak_ptr<Value>> values;
    std::size_t sweep_at = 64;  // at this number, unused ones are dropped
  };
  auto& known = of_this_process<Known>();
  const std::lock_guard lock(known.mutex);
  if (known.values.size() >= known.sweep_at) {
    std::erase_if(known.values, [](const auto& entry) { return entry.second.expired(); });
    known.sweep_at = 2 * known.values.size() + 64;
  }
  std::weak_ptr<Value>& entry = known.values[{device, inode}];
  std::shared_ptr<Value> value = entry.lock();
  if (value == nullptr) entry = value = std::make_shared<Value>();
  return value;
}

}  // namespace ferry::storage
