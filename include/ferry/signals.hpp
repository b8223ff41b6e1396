// Opt-in: a thread that shuts a runtime down when the process is asked to end. For programs that do
// not handle SIGINT, SIGTERM and SIGHUP themselves; the library installs no handlers on its own.
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
  // Blocks the three signals for the calling thread and all that it starts from now on. Before
  // anything else starts threads: a signal goes to any thread that does not block it.
  static void block();

  // On the first signal runs `on_signal`, then runtime.shutdown(deadline); on every later one only
  // `on_signal`. That function runs on this thread, takes the signal's number and must not throw.
  // Throws ferry::Error (no descriptor left).
  explicit SignalThread(Runtime& runtime,
                        std::chrono::milliseconds deadline = std::chrono::seconds(10),
                        std::function<void(int)> on_signal = {});
  // The same for what is ended in another way (GpuRuntime::shutdown(), several runtimes):
  // `shut_down` must not throw.
  explicit SignalThread(std::function<void()> shut_down, std::function<void(int)> on_signal = {});
  // Waits for a shutdown that is under way. Signals that come later stay blocked.
  ~SignalThread();
  SignalThread(const SignalThread&) = delete;
  SignalThread& operator=(const SignalThread&) = delete;

  // The first signal that came, or 0. Thread-safe.
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
