// How to replace a function of the C library: a definition under its name, and a pointer to the
// original. Definitions have their own C++ names, because the library's headers disagree about
// attributes and exceptions.
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

// The next `name` after this library: the C library's.
template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

// `ours` with the file if the descriptor is buffered, else `theirs`.
template <class Ours, class Theirs>
auto either(int descriptor, Ours&& ours, Theirs&& theirs) {
  if (const FilePointer file = Files::instance().find(descriptor)) {
    const auto held = file->lock();
    if (!file->is_released()) return ours(*file);
  }
  return theirs();
}

}  // namespace ferry::iobuf
