// Keeps a thread from being cancelled in the middle of a call.
#pragma once

#include <pthread.h>

namespace ferry {

// While it lives, pthread_cancel() of this thread waits: that unwinds the stack, so descriptors and
// locks would be lost, and a function that catches everything would end the process.
class Uncancelled {
 public:
  Uncancelled() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~Uncancelled() { pthread_setcancelstate(before_, nullptr); }
  Uncancelled(const Uncancelled&) = delete;
  Uncancelled& operator=(const Uncancelled&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

}  // namespace ferry
