// Whether this process is still the one that an object was made in. A child of fork() has none of
// its parent's threads, and locks as they were at that moment.
#pragma once

#include <atomic>
#include <cstdint>

namespace ferry {

// How often this process and its ancestors have forked into being since the library was loaded.
std::uint64_t fork_generation();

class MadeHere {
 public:
  explicit operator bool() const { return generation_ == fork_generation(); }

 private:
  std::uint64_t generation_ = fork_generation();
};

// The only `Type` of this process, made when it is first asked for and never destroyed. A child of
// fork() gets a new one: a lock in its parent's may be held by a thread that the child has not.
template <class Type>
Type& of_this_process() {
  struct Made {
    const std::uint64_t generation = fork_generation();
    Made* ancestor = nullptr;  // stays reachable
    Type value;
  };
  static std::atomic<Made*> latest{nullptr};
  // Acquires what the exchange below has released: all that its maker has written.
  Made* found = latest.load(std::memory_order_acquire);
  while (found == nullptr || found->generation != fork_generation()) {
    auto* made = new Made;
    made->ancestor = found;
    if (latest.compare_exchange_strong(found, made, std::memory_order_acq_rel,
                                       std::memory_order_acquire)) {
      found = made;
    } else {
      delete made;  // another thread was faster
    }
  }
  return found->value;
}

}  // namespace ferry
