// Steps of threads that wait for each other at barriers.
#pragma once

#include <atomic>
#include <exception>
#include <mutex>

namespace ferry::bench {

// Thread-safe.
class Attempts {
 public:
  // Does one step on this thread, unless something failed before. A thread whose step failed goes
  // on through the barriers, so that nobody waits for it in vain. `job`: whose step it is.
  template <class Step>
  void attempt(Step step, unsigned job = 0) {
    if (failed_.load(std::memory_order_relaxed)) return;
    try {
      step();
    } catch (...) {
      const std::lock_guard lock(mutex_);
      if (!error_) {
        error_ = std::current_exception();
        job_ = job;
      }
      failed_.store(true, std::memory_order_relaxed);
    }
  }

  // Steps that take long look at it, and end early.
  const std::atomic<bool>& failed() const { return failed_; }

  // Throws what the first failed step threw. After the threads have ended.
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }
  // Whose step that was.
  unsigned failed_job() const { return job_; }

 private:
  std::atomic<bool> failed_{false};
  std::mutex mutex_;
  std::exception_ptr error_;
  unsigned job_ = 0;
};

}  // namespace ferry::bench
