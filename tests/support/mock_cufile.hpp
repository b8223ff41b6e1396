// Uses the mock cuFile library (tests/mocks/cufile.cpp) instead of the real one, on any machine.
#pragma once

#include <cstdlib>

#include <dlfcn.h>

namespace ferry::test {

class MockCuFile {
 public:
  // Sets its answers: the words of tests/mocks/cufile.cpp. Nothing may be in flight.
  static void answer(const char* words) {
    setenv("FERRY_CUFILE_LIBRARY", FERRY_MOCK_CUFILE_LIBRARY, 1);
    setenv("FERRY_GPUDIRECT", "on", 1);
    setenv("FERRY_MOCK_CUFILE", words, 1);
  }
  static void forget() {
    for (const char* name : {"FERRY_CUFILE_LIBRARY", "FERRY_GPUDIRECT", "FERRY_MOCK_CUFILE"})
      unsetenv(name);
  }
  static long get(const char* name) {
    return function<long(const char*)>("ferry_mock_cufile_get")(name);
  }
  static void set(const char* name, long value) {
    function<void(const char*, long)>("ferry_mock_cufile_set")(name, value);
  }

 private:
  template <class Function>
  static Function* function(const char* name) {
    static void* library = dlopen(FERRY_MOCK_CUFILE_LIBRARY, RTLD_NOW | RTLD_LOCAL);
    return reinterpret_cast<Function*>(dlsym(library, name));
  }
};

}  // namespace ferry::test
