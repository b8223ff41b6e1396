#include "bulk/callbacks.hpp"

#include <exception>
#include <new>
#include <utility>

#include "base/cpus.hpp"

namespace ferry::bulk {

void Callbacks::post(std::function<void()> callback) {
  {
    const std::lock_guard lock(mutex_);
    if (!stopping_ && (thread_.joinable() || start_thread())) {
      try {
        waiting_.push_back(std::move(callback));
        more_.notify_one();
        return;
      } catch (const std::bad_alloc&) {  // it is still here
      }
    }
  }
  callback();
}

bool Callbacks::start_thread() {
  try {
    // Keeps this object alive, which its own last callback may release.
    thread_ = std::thread([self = shared_from_this()] { self->run(); });
  } catch (const std::exception&) {
    return false;
  }
  return true;
}

void Callbacks::stop() {
  std::thread thread;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    thread.swap(thread_);
  }
  more_.notify_one();
  if (!thread.joinable()) return;
  if (thread.get_id() == std::this_thread::get_id()) {
    thread.detach();
  } else {
    thread.join();
  }
}

void Callbacks::run() {
  name_this_thread("ferry-callback");
  std::unique_lock lock(mutex_);
  for (;;) {
    more_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    {
      const std::function<void()> callback = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      callback();
    }  // destroyed without the lock: it may hold the last reference to anything
    lock.lock();
  }
}

}  // namespace ferry::bulk
