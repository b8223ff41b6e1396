// The system calls that the library makes, one of which fails: by functions that the linker puts in
// the place of those of the C library and of liburing (system_calls.cpp; the list of their names is
// in tests/CMakeLists.txt), and by the place of pthread_create.
#pragma once

#include <cstdint>

#include "faults/nth_point.hpp"

namespace ferry::test {

// The point of all of them.
NthPoint& system_calls();
// Which of the errors that a call may have is taken, from the next one on.
void choose_system_error(std::uint64_t number);
// Only calls of this name count; null: all.
void count_only(const char* name);
// What the last strike hit, and the error that it gave. And whether one since choose_system_error()
// gave this error.
const char* struck_call();
int struck_error();
bool struck_with(int error);
// Bytes that the library has mapped with mmap() and not unmapped.
std::int64_t mapped_bytes();

}  // namespace ferry::test
