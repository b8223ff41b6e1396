// Optional: a thread that shuts a runtime down on SIGINT, SIGTERM and SIGHUP, for programs that do
// not handle them. The library itself installs no handlers.
//
//   ferry::SignalThread::block();              // first, while there is one thread
//   ferry::Runtime runtime;
//   ferry::SignalThread signals(runtime);      // from now on Ctrl-C ends calls with -ESHUTDOWN
//   runtime.run(...);
//   return signals.received() != 0 ? 130 : 0;
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include <ferry/runtime.hpp>

namespace ferry {

class SignalThread {
 public:
  // Blocks the three signals for the calling thread and threads it starts later. Call it before any
  // thread starts: a signal goes to any thread that does not block it.
  static void block();

  // The first signal runs `on_signal`, then runtime.shutdown(deadline); later ones only run
  // `on_signal`, on this thread, with the signal's number. It must not throw. Throws ferry::Error
  // (no descriptor or no thread left).
  explicit SignalThread(Runtime& runtime,
                        std::chrono::milliseconds deadline = std::chrono::seconds(10),
                        std::function<void(int)> on_signal = {});
  // The same with another way to end (GpuRuntime::shutdown()): `shut_down` must not throw.
  explicit SignalThread(std::function<void()> shut_down, std::function<void(int)> on_signal = {});
  // Waits for a shutdown in progress. Later signals stay blocked.
  ~SignalThread();
  SignalThread(const SignalThread&) = delete;
  SignalThread& operator=(const SignalThread&) = delete;

  // The first signal received, or 0. Thread-safe.
  int received() const { return received_.load(std::memory_order_acquire); }

 private:
  void watch();

  const std::function<void()> shut_down_;
  const std::function<void(int)> on_signal_;
  int signals_ = -1;  // signalfd
  int leave_ = -1;    // eventfd, written by the destructor
  std::atomic<int> received_{0};
  std::thread thread_;
};

}  // namespace ferry
