// Streams of the mock driver: threads that execute operations in order, asynchronously.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "backend/cuda/abi.hpp"

namespace ferry::cuda::mock {

// A point in a stream: whether it is passed. Each record of an event makes a new one.
using Mark = std::atomic<bool>;

class MockStream {
 public:
  explicit MockStream(int device) : device_(device), thread_([this] { run(); }) {}
  // Runs what is left.
  ~MockStream() {
    add(nullptr);
    thread_.join();
  }
  MockStream(const MockStream&) = delete;
  MockStream& operator=(const MockStream&) = delete;

  int device() const { return device_; }
  // Null ends the stream.
  void add(std::function<void()> work) {
    {
      const std::lock_guard lock(mutex_);
      work_.push_back(std::move(work));
    }
    changed_.notify_all();
  }
  void wait_until_idle() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return work_.empty(); });
  }

 private:
  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return !work_.empty(); });
      const std::function<void()> work = work_.front();  // stays in the list until it is done
      if (work == nullptr) return;
      lock.unlock();
      work();
      lock.lock();
      work_.pop_front();
      changed_.notify_all();
    }
  }

  const int device_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  std::thread thread_;
};

}  // namespace ferry::cuda::mock
