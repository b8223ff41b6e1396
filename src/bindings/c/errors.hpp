// Exceptions of C++ as negative errno values and a text: none of them leaves a function of ferry.h.
#pragma once

#include <cerrno>
#include <string>
#include <utility>

#include <ferry/error.hpp>

#include "base/uncancelled.hpp"

namespace ferry::c {

// The text of this thread's last failure, for ferry_error_text().
const char* error_text() noexcept;

// The exception being handled, as a negative errno; its text becomes the thread's.
int report_exception() noexcept;

// `work()`, or the negative errno of what it throws.
template <class Work>
auto guarded(Work&& work) noexcept -> decltype(work()) {
  const Uncancelled no_cancellation;
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
