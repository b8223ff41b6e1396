// Detects whether an object was made in this process or before a fork(): a child has none of its
// parent's threads, and locks in the state of that moment.
#pragma once

#include <atomic>
#include <cstdint>

namespace ferry {

// How many forks separate this process from the one that loaded the library.
std::uint64_t fork_generation();

// A page of zeros that the kernel empties in every child of fork(), also of a bare system call;
// null where it cannot. A child of vfork() shares it. Never freed.
void* make_page_that_forks_empty();

class MadeHere {
 public:
  explicit operator bool() const { return generation_ == fork_generation(); }

 private:
  std::uint64_t generation_ = fork_generation();
};

// The process's only `Type`, made on first use and never destroyed. A child of fork() makes a new
// one, because a thread that does not exist there may hold a lock of the parent's.
template <class Type>
Type& of_this_process() {
  struct Made {
    const std::uint64_t generation = fork_generation();
    Made* ancestor = nullptr;  // stays reachable
    Type value;
  };
  static std::atomic<Made*> latest{nullptr};
  // Pairs with the release of the exchange below.
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
