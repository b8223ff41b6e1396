// How to replace a function of the C library: a definition under its name, and a pointer to the
// original. Definitions have their own C++ names, because the library's headers disagree about
// attributes and exceptions.
#pragma once

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>

#include <dlfcn.h>

#include "base/kernel_call.hpp"
#include "interpose/cached_reads.hpp"
#include "interpose/files.hpp"

#ifdef __clang__
#pragma clang diagnostic ignored "-Wreserved-identifier"  // some of the C library's names are
#endif

#define FERRY_STANDS_IN(result, name, ...)          \
  extern "C" __attribute__((visibility("default"))) \
  result name##_here(__VA_ARGS__) __asm__(#name);   \
  result name##_here(__VA_ARGS__)

namespace ferry::iobuf {

template <std::size_t size>
struct FunctionName {
  consteval FunctionName(const char (&from)[size]) { std::copy_n(from, size, text); }
  char text[size]{};
};

// The next function of that name after this library: the C library's, or that of another preloaded
// library. dlsym takes 100 ns and a lock, which a signal handler must not wait for. So all are
// looked up when this library is loaded; only what runs still earlier looks for itself.
template <FunctionName name>
class Original {
 public:
  static void* get() {
    static_cast<void>(&at_load);  // so that there is one
    void* known = found.load(std::memory_order_relaxed);
    return known != nullptr ? known : find();
  }

 private:
  struct AtLoad {
    AtLoad() { find(); }
  };
  __attribute__((noinline, cold)) static void* find() {
    void* original = dlsym(RTLD_NEXT, name.text);
    found.store(original, std::memory_order_relaxed);
    return original;
  }

  static inline constinit std::atomic<void*> found{nullptr};
  static inline AtLoad at_load;
};

template <class Function, FunctionName name>
Function* next() {
  return reinterpret_cast<Function*>(Original<name>::get());
}

// The next function of that name, or the system call where an older C library has none.
template <class Function, FunctionName name, class... Words>
long or_kernel(long number, Words... words) {
  if (auto* original = next<Function, name>(); original != nullptr) return original(words...);
  const long result = kernel_call(number, words...);
  if (result >= 0) return result;
  errno = static_cast<int>(-result);
  return -1;
}

// Out of line, because few descriptors are buffered.
template <class Ours, class Theirs>
__attribute__((noinline, cold)) auto either_slowly(int descriptor, Ours ours, Theirs theirs) {
  if (const FilePointer file = Files::instance().find(descriptor)) {
    const auto held = file->lock();
    const Files::Inside inside;
    if (!file->is_released()) return ours(*file);
  }
  return theirs();
}

// `ours` with the file if the descriptor is buffered, else `theirs`. Both hold copies of what they
// need, so that nothing is passed through memory on the way to the kernel.
template <class Ours, class Theirs>
__attribute__((always_inline)) inline auto either(int descriptor, Ours ours, Theirs theirs) {
  if (Files::may_track(descriptor)) [[unlikely]]
    return either_slowly(descriptor, ours, theirs);
  return theirs();
}

}  // namespace ferry::iobuf
