// The interpreter's lock, around what may wait.
#pragma once

#include <chrono>
#include <memory>

#include <nanobind/nanobind.h>

namespace ferry::bulk {
class Scheduler;
}

namespace ferry::python {

// Releases the lock for a scope. Takes no part in the end of the interpreter, see end(): once that
// has begun, other threads pause here. Made and destroyed with the lock held, which guards the
// count.
class LockRelease {
 public:
  LockRelease();
  ~LockRelease();
  LockRelease(const LockRelease&) = delete;
  LockRelease& operator=(const LockRelease&) = delete;

 private:
  PyThreadState* state_ = nullptr;
};

// The threads of an engine that call Python, while they do: they do not pause, as end() waits for
// them.
class EngineThread {
 public:
  EngineThread();
  ~EngineThread();
  EngineThread(const EngineThread&) = delete;
  EngineThread& operator=(const EngineThread&) = delete;

 private:
  const bool before_;
};

// To be called by the thread that is about to end the interpreter, with the lock held. What it does
// leaves no thread of an engine, and none in a LockRelease:
//   E1  No engine is made from now on, and every one that there is ends: those whose last holder is
//       a file or a transfer too (keep()). So no thread of an engine wants the lock later.
//   E2  It returns when no other thread is without the lock because of a LockRelease. Those made
//       later keep the lock, so no thread wants it back in the middle of C++.
//   E3  A thread that comes out of a LockRelease, or wants one, from E1 on, pauses without the lock
//       until the interpreter goes, and then stays. An error that it took back to Python would
//       mostly be printed, and Python aborts the process when such a thread ends while it holds
//       the lock of stderr. The pause is bounded, for the sake of those who wait for that thread.
//   E4  A thread that wants the lock back while the interpreter goes stays where it is.
void end();
// Whether end() was called.
bool ending();
// end() ends it. To be called with the lock held, before anybody else knows the engine.
void keep(const std::shared_ptr<bulk::Scheduler>& scheduler);

// Raises what a signal's handler does, KeyboardInterrupt say. To be called now and then beneath a
// LockRelease; only the main thread handles signals.
void check_signals();
inline constexpr std::chrono::milliseconds signals_interval{100};

}  // namespace ferry::python
