// Loaded before a program: one of its allocations in C++ (operator new) fails, counted from
// ferry_fail_new(n) on, in all threads. 0: none.
#include <atomic>

namespace {

std::atomic<long> wanted{0};
std::atomic<long> reached{0};

bool may_allocate() {
  const long n = wanted.load(std::memory_order_relaxed);
  return n == 0 || reached.fetch_add(1) + 1 != n;
}

}  // namespace

// Returns how many there have been since the last time.
extern "C" long ferry_fail_new(long n) {
  wanted = 0;
  const long before = reached.exchange(0);
  wanted = n;
  return before;
}

#include "support/replaced_new.hpp"
