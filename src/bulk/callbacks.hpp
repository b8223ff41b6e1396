// The thread that runs programs' callbacks, so that transfers do not wait for them.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace ferry::bulk {

// Thread-safe. The thread starts with the first callback; where it cannot be started, callbacks run
// on the thread that posts them.
class Callbacks : public std::enable_shared_from_this<Callbacks> {
 public:
  void post(std::function<void()> callback);
  // Waits until all posted callbacks have run, and ends the thread; on that thread itself, does not
  // wait. Later callbacks run on the thread that posts them.
  void stop();

 private:
  void run();
  bool start_thread();  // under the mutex

  std::mutex mutex_;
  std::condition_variable more_;
  std::deque<std::function<void()>> waiting_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace ferry::bulk
