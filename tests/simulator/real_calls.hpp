// The C library's functions that the simulator defines in their place.
#pragma once

#include <dlfcn.h>

namespace ferry::simulator {

template <class Function>
Function* real_function(Function* /*own*/, const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

// real(nanosleep)(...): the function that would be called without the simulator.
#define real(function)                                                                   \
  ([] {                                                                                  \
    static const auto found = ::ferry::simulator::real_function(&::function, #function); \
    return found;                                                                        \
  }())

}  // namespace ferry::simulator
