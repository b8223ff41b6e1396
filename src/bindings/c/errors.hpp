// Exceptions of C++ as negative errno values and a text: none of them leaves a function of ferry.h.
#pragma once

#include <cerrno>
#include <string>
#include <utility>

#include <pthread.h>

#include <ferry/error.hpp>

namespace ferry::c {

// The text of this thread's last failure, for ferry_error_text().
const char* error_text() noexcept;

// The exception being handled, as a negative errno; its text becomes the thread's.
int report_exception() noexcept;

// While it lives, pthread_cancel() of this thread waits: it unwinds the stack, and a function that
// catches everything would end the process.
class NotCancelled {
 public:
  NotCancelled() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~NotCancelled() { pthread_setcancelstate(before_, nullptr); }
  NotCancelled(const NotCancelled&) = delete;
  NotCancelled& operator=(const NotCancelled&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

// `work()`, or the negative errno of what it throws.
template <class Work>
auto guarded(Work&& work) noexcept -> decltype(work()) {
  const NotCancelled no_cancellation;
  try {
    return std::forward<Work>(work)();
  } catch (...) {
    return report_exception();
  }
}

[[noreturn]] inline void refuse(const std::string& why, int error_number = EINVAL) {
  throw Error(error_number, why);
}

// Throws for NULL.
template <class Type>
Type* given(Type* pointer, const char* name) {
  if (pointer == nullptr) refuse(std::string(name) + " is NULL");
  return pointer;
}

}  // namespace ferry::c
