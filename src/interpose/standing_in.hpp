// How a function of the C library is stood in for: a definition under its name, and the way to the
// library's own. Definitions have C++ names of their own, as the library's headers disagree with
// each other about attributes and exceptions.
#pragma once

#include <dlfcn.h>

#include "interpose/files.hpp"

#ifdef __clang__
#pragma clang diagnostic ignored "-Wreserved-identifier"  // some of the C library's names are
#endif

#define FERRY_STANDS_IN(result, name, ...)          \
  extern "C" __attribute__((visibility("default"))) \
  result name##_here(__VA_ARGS__) __asm__(#name);   \
  result name##_here(__VA_ARGS__)

namespace ferry::iobuf {

// The next `name` behind this library, which is the C library's.
template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

// `ours` with the file where the descriptor is buffered, else `theirs`.
template <class Ours, class Theirs>
auto either(int descriptor, Ours&& ours, Theirs&& theirs) {
  if (const FilePointer file = Files::instance().find(descriptor)) {
    const auto held = file->lock();
    if (!file->is_released()) return ours(*file);
  }
  return theirs();
}

}  // namespace ferry::iobuf
