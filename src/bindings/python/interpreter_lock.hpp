// Releases the interpreter's lock around calls that may wait.
#pragma once

#include <chrono>
#include <memory>

#include <nanobind/nanobind.h>

namespace ferry::bulk {
class Scheduler;
}

namespace ferry::python {

// Releases the lock for a scope. Once end() has begun, other threads pause here. Make and destroy
// it with the lock held, which guards the count.
class LockRelease {
 public:
  LockRelease();
  ~LockRelease();
  LockRelease(const LockRelease&) = delete;
  LockRelease& operator=(const LockRelease&) = delete;

 private:
  PyThreadState* state_ = nullptr;
};

// For an engine's threads while they call Python: they do not pause, because end() waits for them.
class EngineThread {
 public:
  EngineThread();
  ~EngineThread();
  EngineThread(const EngineThread&) = delete;
  EngineThread& operator=(const EngineThread&) = delete;

 private:
  const bool before_;
};

// Called with the lock held by the thread that is about to end the interpreter. Afterwards no
// thread of an engine and none in a LockRelease can disturb that:
//   E1  No engine is made any more, and all existing ones end, also those kept only by a file or a
//       transfer (keep()). So no thread of an engine wants the lock later.
//   E2  It returns when no other thread has released the lock by a LockRelease. Later ones keep
//       the lock, so no thread wants it back in the middle of C++.
//   E3  From E1 on, a thread that leaves or enters a LockRelease pauses without the lock until the
//       interpreter ends, and then stays. Otherwise its error would be printed, and Python aborts
//       the process if such a thread ends while it holds stderr's lock. The pause is bounded, for
//       threads that wait for this one.
//   E4  A thread that wants the lock back while the interpreter ends stays where it is.
void end();
// Whether end() was called.
bool ending();
// Lets end() end it. Call it with the lock held, before the engine is used.
void keep(const std::shared_ptr<bulk::Scheduler>& scheduler);

// Raises what a signal handler raises, such as KeyboardInterrupt. Call it regularly inside a
// LockRelease; only the main thread handles signals.
void check_signals();
inline constexpr std::chrono::milliseconds signals_interval{100};

}  // namespace ferry::python
