// Uses the mock cuFile library (tests/mocks/cufile.cpp) instead of the real one, on any machine.
#pragma once

#include <cstdlib>

#include "support/mock_gpu.hpp"

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
    return function_of<long(const char*)>(FERRY_MOCK_CUFILE_LIBRARY, "ferry_mock_cufile_get")(name);
  }
  static void set(const char* name, long value) {
    function_of<void(const char*, long)>(FERRY_MOCK_CUFILE_LIBRARY, "ferry_mock_cufile_set")(name,
                                                                                             value);
  }
};

}  // namespace ferry::test
