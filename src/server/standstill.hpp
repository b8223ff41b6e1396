// How much of the time in which a loop did not progress counts against it.
#pragma once

#include <algorithm>
#include <chrono>
#include <optional>

namespace ferry::server {

// What the kernel says of a thread. Where it does not say, the thread counts as one that waits for
// something else than a CPU.
struct ThreadState {
  bool is_runnable = false;  // has a CPU or waits for one
  std::optional<std::chrono::nanoseconds> cpu_time;
};

// Of the time that passed between two looks at its thread: all of it, but of a thread that has a
// CPU or waits for one no more than it ran. A loop that hangs must never look as if it waited.
inline std::chrono::nanoseconds time_at_standstill(std::chrono::nanoseconds passed,
                                                   const ThreadState& before,
                                                   const ThreadState& now) {
  if (!now.is_runnable || !before.cpu_time || !now.cpu_time) return passed;
  return std::clamp(*now.cpu_time - *before.cpu_time, std::chrono::nanoseconds{0}, passed);
}

}  // namespace ferry::server
