// The interpreter's lock, around what may wait.
#pragma once

#include <chrono>

#include <nanobind/nanobind.h>

namespace ferry::python {

// Releases the lock for a scope. Takes no part in the end of the interpreter: a thread that wants
// the lock back then would be ended in the middle of C++, so end_releases() waits for it before.
// Made and destroyed with the lock held, which guards the count.
class LockRelease {
 public:
  LockRelease();
  ~LockRelease();
  LockRelease(const LockRelease&) = delete;
  LockRelease& operator=(const LockRelease&) = delete;

 private:
  PyThreadState* state_ = nullptr;
};

// Waits until no other thread is without the lock because of a LockRelease; those made later keep
// it. To be called by the thread that is about to end the interpreter, once nothing can make such a
// scope wait for long.
void end_releases();

// Raises what a signal's handler does, KeyboardInterrupt say. To be called now and then beneath a
// LockRelease; only the main thread handles signals.
void check_signals();
inline constexpr std::chrono::milliseconds signals_interval{100};

// Whether end_releases() was called.
bool releases_ended();

}  // namespace ferry::python
