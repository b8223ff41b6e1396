#include "storage/posix/blocking_queue.hpp"

#include <atomic>
#include <cerrno>

namespace ferry::storage {

void BlockingQueue::submit(Operation& operation) {
  operation.done_bytes = 0;
  operation.result = 0;
  operation.value = 0;
  submitted_.push(operation);
}

void BlockingQueue::flush() {
  while (Operation* operation = submitted_.pop()) {
    const bool transfers = operation->kind == Kind::read || operation->kind == Kind::write;
    if (operation->kind == Kind::close) {
      static_cast<PosixFile*>(operation->file)
          ->identity->closed.store(true, std::memory_order_release);
      shared_.closes.fetch_add(1, std::memory_order_release);
    }
    if (transfers && operation->offset < 0) {
      operation->result = -EINVAL;
    } else {
      execute_waiting(*operation);
      shared_.learn_registered_buffers(*operation, true);
    }
    std::atomic_ref(executed_).fetch_add(1, std::memory_order_relaxed);
    finished_.push(*operation);
  }
}

std::int64_t BlockingQueue::read_file(const char* path, std::span<std::byte> memory) {
  std::atomic_ref(executed_).fetch_add(1, std::memory_order_relaxed);
  return read_file_blocking(path, memory);
}

QueueStatistics BlockingQueue::statistics() const {
  QueueStatistics statistics;
  statistics.inline_operations =
      std::atomic_ref(const_cast<std::uint64_t&>(executed_)).load(std::memory_order_relaxed);
  return statistics;
}

}  // namespace ferry::storage
