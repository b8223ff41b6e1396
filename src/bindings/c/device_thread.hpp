// What a ferry_thread stands for.
#pragma once

#include <ferry.h>

#include <ferry/runtime.hpp>

struct ferry_thread {  // NOLINT(readability-identifier-naming): the name in ferry.h
  ferry::DeviceThread& self;
};

namespace ferry::c {

// That of the program that runs on this thread, or null. Whatever else is passed to a device call
// is refused.
extern constinit thread_local ferry_thread* thread_of_program;

}  // namespace ferry::c
