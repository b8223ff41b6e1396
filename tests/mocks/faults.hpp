// What the mocks of client libraries share: calls that hang, and their number.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>

namespace {

struct Calls {
  std::mutex mutex;
  std::condition_variable changed;
  std::string hanging;
  int inside = 0;
  int so_far = 0;
};

Calls& calls() {
  static auto& all = *new Calls;
  return all;
}

void may_hang(const std::string& function) {
  std::unique_lock lock(calls().mutex);
  ++calls().so_far;
  ++calls().inside;
  calls().changed.notify_all();
  const auto hangs = [&] {
    return (' ' + calls().hanging + ' ').find(' ' + function + ' ') != std::string::npos;
  };
  calls().changed.wait(lock, [&] { return !hangs(); });
  --calls().inside;
}

}  // namespace

extern "C" {

// From now on, calls of `function` ("ceph_write" and the like) wait; with "", none do. Several have
// blanks between them.
void mock_hang(const char* function) {
  const std::lock_guard lock(calls().mutex);
  calls().hanging = function;
  calls().changed.notify_all();
}

// How many calls are in the library and were not failed yet.
int mock_inside() {
  const std::lock_guard lock(calls().mutex);
  return calls().inside;
}

// The number of calls so far, in a child of fork() including its parent's.
int mock_calls() {
  const std::lock_guard lock(calls().mutex);
  return calls().so_far;
}

}  // extern "C"
