// What the mocks of client libraries share: calls that hang, their number, and the n-th of them,
// which fails.
#pragma once

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <string>
#include <thread>

#include "mocks/strikes.hpp"

namespace {

struct Calls {
  std::mutex mutex;
  std::condition_variable changed;
  std::string hanging;
  int inside = 0;
  int so_far = 0;
  // Of mock_strike().
  ferry::test::MockStrikes strikes;
  std::string struck = "none";
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

// The share of a transfer that this call moves.
thread_local std::size_t parts = 1;
inline std::size_t moved(std::size_t bytes) {
  return bytes < 2 ? bytes : bytes / parts;
}

// Carries out a call, or makes it fail: `failed(error)` is its result then.
template <class Failed, class Work>
auto fallible(const std::string& function, const Failed& failed, const Work& work) {
  using ferry::test::MockStrikes;
  using ferry::test::MockWay;
  may_hang(function);
  MockStrikes strikes;
  bool strikes_now = false;
  {
    const std::lock_guard lock(calls().mutex);
    strikes = calls().strikes;
    strikes_now = strikes.now != nullptr && strikes.now();
    if (strikes_now) calls().struck = function;
  }
  if (strikes.begin != nullptr) strikes.begin();
  MockWay way = strikes_now ? strikes.way : MockWay::none;
  const bool moves =
      function == "ceph_read" || function == "ceph_write" || function == "PVFS_sys_io";
  if (way == MockWay::shortened && !moves) way = MockWay::refused;
  // An end happens whatever it returns, and what is not returned is not made.
  if (way == MockWay::refused && function == "ceph_close") way = MockWay::done;
  const bool makes = function == "ceph_open" || function == "ceph_create";
  if (way == MockWay::done && makes) way = MockWay::refused;
  if (way == MockWay::late) std::this_thread::sleep_for(strikes.late);
  parts = way == MockWay::shortened ? 2 : 1;
  auto result = way == MockWay::refused ? failed(strikes.error) : work();
  parts = 1;
  if (way == MockWay::done) result = failed(strikes.error);
  if (strikes.end != nullptr) strikes.end();
  return result;
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

// From now on a call fails whenever `strikes.now()` says so.
void mock_strike(const ferry::test::MockStrikes* strikes) {
  const std::lock_guard lock(calls().mutex);
  calls().strikes = *strikes;
}

// The function that failed last.
const char* mock_struck() {
  const std::lock_guard lock(calls().mutex);
  return calls().struck.c_str();
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
