// Runs a program once for each system call that the library makes in it, and has that one fail.
#pragma once

#include <cerrno>
#include <cstdint>
#include <iostream>

#include <gtest/gtest.h>

#include "faults/nth_point.hpp"
#include "faults/resources.hpp"
#include "faults/system_calls.hpp"
#include "support/depth.hpp"

namespace ferry::test {

// What an error of the system may become: the error of the call, or -EIO.
inline bool is_of_a_system_call(int error) {
  return struck_with(error) || error == EIO;
}

// Runs it for every point.
template <class Program>
void fail_each_call(const Program& program) {
  const Resources before = resources_after([&] {
    system_calls().arm(never);
    program();
  });
  const std::int64_t mapped_before = mapped_bytes();
  std::uint64_t points = 0;
  for (std::uint64_t shift = 0; shift < (is_deep() ? 3 : 1); ++shift) {
    points += for_every_point(system_calls(), [&](std::uint64_t n) {
      choose_system_error(n + shift);
      system_calls().arm(n);
      program();
      system_calls().disarm();
      SCOPED_TRACE(struck_call());
      EXPECT_EQ(mapped_bytes(), mapped_before) << "memory stays mapped";
      expect_resources(before);
    });
    if (testing::Test::HasFailure()) return;
  }
  std::cout << "[  POINTS  ] " << points << '\n';
  for_pairs_of_points(system_calls(), [&](std::uint64_t n, std::uint64_t m) {
    choose_system_error(n);
    system_calls().arm(n, m);
    program();
    system_calls().disarm();
    EXPECT_EQ(mapped_bytes(), mapped_before) << "memory stays mapped";
    expect_resources(before);
  });
}

}  // namespace ferry::test
