// Bounds a blocking call that may take for ever.
#pragma once

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "storage/library.hpp"

namespace ferry::storage {

// Returns the result of call(); nothing if it takes longer. It then continues in its own thread, so
// it must own what it uses, which is otherwise released before this returns. Throws Unavailable if
// call() throws: a new exception with the same text, because the later of two threads releases a
// shared one.
template <class Call>
auto in_time(std::chrono::milliseconds timeout, Call call) -> std::optional<decltype(call())> {
  using Result = decltype(call());
  struct Outcome {
    std::mutex mutex;
    std::condition_variable changed;
    bool over = false;  // guarded by the mutex, as is what follows
    std::optional<Result> result;
    int error_number = 0;
    std::string problem;
  };
  const auto outcome = std::make_shared<Outcome>();
  std::thread([outcome, owned = std::optional<Call>(std::move(call))]() mutable {
    std::optional<Result> result;
    int error_number = 0;
    std::string problem;
    try {
      result = (*owned)();
    } catch (const Unavailable& reason) {
      error_number = reason.error_number();
      problem = reason.what();
    } catch (const std::exception& reason) {
      error_number = EIO;
      problem = reason.what();
    }
    owned.reset();
    {
      const std::lock_guard lock(outcome->mutex);
      outcome->result = std::move(result);
      outcome->error_number = error_number;
      outcome->problem = std::move(problem);
      outcome->over = true;
    }
    outcome->changed.notify_one();
  }).detach();
  std::unique_lock lock(outcome->mutex);
  if (!outcome->changed.wait_for(lock, timeout, [&] { return outcome->over; })) return std::nullopt;
  if (outcome->error_number != 0) throw Unavailable(outcome->error_number, outcome->problem);
  return std::move(outcome->result);
}

}  // namespace ferry::storage
