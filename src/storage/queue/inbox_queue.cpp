#include "storage/queue/inbox_queue.hpp"

#include <atomic>
#include <thread>

#include "base/futex.hpp"

namespace ferry::storage {

void OperationList::push(Operation& operation) {
  operation.next = nullptr;
  if (last_ != nullptr) {
    last_->next = &operation;
  } else {
    first_ = &operation;
  }
  last_ = &operation;
}

Operation* OperationList::pop() {
  Operation* operation = first_;
  if (operation != nullptr) {
    first_ = operation->next;
    if (first_ == nullptr) last_ = nullptr;
  }
  return operation;
}

void InboxQueue::submit(Operation& operation) {
  operation.done_bytes = 0;
  operation.result = 0;
  operation.value = 0;
  submitted_.push(operation);
  ++submitted_count_;
}

void InboxQueue::flush() {
  while (Operation* operation = submitted_.pop())
    start(*operation);
  submitted_count_ = 0;
}

Operation* InboxQueue::reap() {
  if (finished_.empty() && away_ > 0) {
    for (Operation* next = inbox_.take_all(); next != nullptr;) {
      Operation& operation = *next;
      next = operation.next;
      --away_;
      finish(operation);
    }
  }
  return finished_.pop();
}

void InboxQueue::wait(std::uint32_t seen, std::chrono::nanoseconds timeout) {
  // The doorbell rings after every operation that other threads finish, so one word serves both.
  if (!nothing_finished()) return;
  futex_wait(options_.doorbell.word, seen, static_cast<std::uint64_t>(timeout.count()));
}

void InboxQueue::await_others() {
  while (away_ > 0 || inbox_.in_use()) {
    while (reap() != nullptr) {
    }
    std::this_thread::yield();
  }
}

void InboxQueue::count(std::uint64_t& counter) {
  std::atomic_ref<std::uint64_t> value(counter);
  value.store(value.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

QueueStatistics InboxQueue::statistics() const {
  const auto read = [](const std::uint64_t& counter) {
    return std::atomic_ref<std::uint64_t>(const_cast<std::uint64_t&>(counter))
        .load(std::memory_order_relaxed);
  };
  return QueueStatistics{read(statistics_.inline_operations), read(statistics_.engine_operations),
                         read(statistics_.pool_operations)};
}

}  // namespace ferry::storage
