// Blocking calls to a storage, for programs that have a thread to wait with.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>

#include "storage/storage.hpp"

namespace ferry::storage {

// One queue with a doorbell of its own. For one thread.
class Calls {
 public:
  // `arena`: memory that most transfers will use.
  explicit Calls(Storage& storage, std::span<std::byte> arena = {}, unsigned depth = 64);
  ~Calls();
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;

  // Executes one operation while nothing else is under way; returns its result.
  std::int64_t run(Operation& operation);
  // Starts one, to be returned by next().
  void start(Operation& operation);
  // A finished operation, or null when none has finished after `timeout`.
  Operation* next(std::chrono::milliseconds timeout);
  void cancel(Operation& operation) { queue_->cancel(operation); }

 private:
  std::uint32_t doorbell_ = 0;
  std::unique_ptr<Queue> queue_;
};

}  // namespace ferry::storage
