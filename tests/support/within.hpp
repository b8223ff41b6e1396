// For tests that must not hang.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <future>
#include <thread>
#include <utility>
#include <vector>

namespace ferry::test {

// Enough for the slowest machine and sanitizer; no test measures time with it.
inline constexpr std::chrono::seconds patience{120};

// Runs `work`, and ends the whole program as failed if it does not return for a long time: a
// hanging thread cannot be stopped.
inline void within_patience(const char* what, const std::function<void()>& work) {
  std::promise<void> done;
  std::future<void> finished = done.get_future();
  std::thread watch([&finished, what] {
    if (finished.wait_for(patience) == std::future_status::ready) return;
    std::fprintf(stderr, "\nFAILED: this hangs: %s\n", what);
    std::fflush(nullptr);
    std::_Exit(1);
  });
  try {
    work();
  } catch (...) {
    done.set_value();
    watch.join();
    throw;
  }
  done.set_value();
  watch.join();
}

// Calls work(0) to work(count - 1) at the same time, each on a thread of its own.
template <class Work>
void at_once(const char* what, std::uint32_t count, const Work& work) {
  within_patience(what, [&] {
    std::vector<std::jthread> threads;
    for (std::uint32_t i = 0; i < count; ++i)
      threads.emplace_back([&work, i] { work(i); });
  });
}
// The same with random numbers for each of them.
template <class Random, class Work>
void at_once(const char* what, std::uint32_t count, Random& random, const Work& work) {
  within_patience(what, [&] {
    std::vector<std::jthread> threads;
    for (std::uint32_t i = 0; i < count; ++i)
      threads.emplace_back([&work, i, own = random.fork()]() mutable { work(i, own); });
  });
}

// Waits until `condition()` holds. Returns false if it never does.
template <class Condition>
bool eventually(Condition condition, std::chrono::milliseconds limit = patience) {
  const auto until = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return true;
}

}  // namespace ferry::test
