// The queue of storage `posix` for threads that may block: each operation is a plain system call on
// the thread that flushes.
#pragma once

#include "storage/posix/queue.hpp"

namespace ferry::storage {

class BlockingQueue final : public Queue {
 public:
  explicit BlockingQueue(PosixShared& shared) : shared_(shared) {}

  void submit(Operation& operation) override;
  void flush() override;
  Operation* reap() override { return finished_.pop(); }
  // Returns immediately: flushed operations have finished.
  void wait(std::uint32_t, std::chrono::nanoseconds) override {}
  void cancel(Operation&) override {}
  QueueStatistics statistics() const override;
  std::int64_t read_file(const char* path, std::span<std::byte> memory) override;

 private:
  PosixShared& shared_;
  OperationList submitted_;
  OperationList finished_;
  std::uint64_t executed_ = 0;
};

}  // namespace ferry::storage
