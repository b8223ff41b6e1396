// Streams of the mock driver: threads that execute operations in order, asynchronously.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "backend/cuda/abi.hpp"

namespace ferry::cuda::mock {

// A point in a stream: whether it is passed. Each record of an event makes a new one.
using Mark = std::atomic<bool>;

class Stream {
 public:
  explicit Stream(int device);
  // Runs what is left.
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  int device() const { return device_; }
  void add(std::function<void()> work);
  void wait_until_idle();

 private:
  void run();

  const int device_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  bool busy_ = false;
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace ferry::cuda::mock
