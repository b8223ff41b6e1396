// What a process has open and runs, for tests of what a failure leaves behind.
#pragma once

#include <chrono>
#include <filesystem>
#include <iterator>
#include <string>
#include <thread>

#include <gtest/gtest.h>

#include "support/within.hpp"

namespace ferry::test {

struct Resources {
  std::ptrdiff_t descriptors = 0;
  std::ptrdiff_t threads = 0;
  bool operator==(const Resources&) const = default;
};

inline Resources resources_now() {
  // The thread sanitizer starts a thread of its own beside the first.
  [[maybe_unused]] static const bool has_had_threads = (std::thread([] {}).join(), true);
  const auto entries = [](const char* folder) {
    return std::distance(std::filesystem::directory_iterator(folder), {});
  };
  return {entries("/proc/self/fd"), entries("/proc/self/task")};
}

// After `program()`, which makes what is made once for the process. Threads that end by themselves
// after a while get that while.
template <class Program>
Resources resources_after(const Program& program) {
  const Resources before = resources_now();
  program();
  Resources now;
  eventually([&] { return (now = resources_now()) == before; }, std::chrono::seconds(5));
  return now;
}

// The kernel may take a moment to drop the entry of a thread that was joined.
inline void expect_resources(const Resources& before) {
  Resources now;
  eventually([&] { return (now = resources_now()) == before; });
  EXPECT_EQ(now.descriptors, before.descriptors) << "descriptors were left open";
  EXPECT_EQ(now.threads, before.threads) << "threads were left running";
}

}  // namespace ferry::test
