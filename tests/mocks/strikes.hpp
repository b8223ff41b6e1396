// Which calls of a mock of a client library fail, and how.
#pragma once

#include <chrono>
#include <cstdint>

namespace ferry::test {

enum class MockWay : std::uint8_t {
  none,
  refused,    // fails, and is not carried out
  done,       // fails, and is carried out
  shortened,  // moves half of its bytes; others are refused
  late,       // is carried out, after a while
};

struct MockStrikes {
  bool (*now)() = nullptr;  // called at each call: whether it is the one; null: none is
  MockWay way = MockWay::refused;
  int error = 0;  // an errno
  std::chrono::milliseconds late{0};
  // What the mock does by itself lies between these, on the thread of the call. Null: nothing.
  void (*begin)() = nullptr;
  void (*end)() = nullptr;
};

}  // namespace ferry::test
