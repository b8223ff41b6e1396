// Streams of the mock driver: threads that execute operations in order, asynchronously.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "backend/cuda/abi.hpp"

namespace ferry::cuda::mock {

// A point in a stream. Reusable, like CUDA's events: each record sets a new mark.
struct Mark {
  std::mutex mutex;
  std::condition_variable passed;
  bool done = false;
  std::chrono::steady_clock::time_point when;
};

class Stream {
 public:
  explicit Stream(int device);
  // Runs what is left.
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  int device() const { return device_; }
  void add(std::function<void()> work);
  bool idle();
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
