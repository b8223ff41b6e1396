// Allocations of C++ (operator new, in all its forms) of which one fails. Nothing fails in builds
// with a sanitizer, whose allocators do not.
#pragma once

#include <cerrno>
#include <cstdint>
#include <iostream>

#include <gtest/gtest.h>

#include "faults/nth_point.hpp"
#include "faults/resources.hpp"
#include "support/depth.hpp"

namespace ferry::test {

// The point of all of them.
NthPoint& allocations();

// -EAGAIN: of a thread that could not be started.
inline bool is_lack_of_memory(int error) {
  return error == ENOMEM || error == EAGAIN;
}

// Those of `program()`; every `step`-th by default. `look_back(before)`: at what a run has left
// behind.
template <class Program, class LookBack>
void fail_each_allocation(const Program& program, const LookBack& look_back,
                          std::uint64_t step = 4) {
  if (sanitized) GTEST_SKIP() << "a sanitizer has its own allocator";
  const PointsHere not_here(false);
  const Resources before = resources_after([&] {
    allocations().arm(never);
    program();
    allocations().disarm();
  });
  const std::uint64_t points = for_every_point(
      allocations(),
      [&](std::uint64_t n) {
        allocations().arm(n);
        program();
        allocations().disarm();
        look_back(before);
      },
      is_deep() ? 1 : step);
  std::cout << "[  POINTS  ] " << points << '\n';
  for_pairs_of_points(allocations(), [&](std::uint64_t n, std::uint64_t m) {
    allocations().arm(n, m);
    program();
    allocations().disarm();
    look_back(before);
  });
}
template <class Program>
void fail_each_allocation(const Program& program, std::uint64_t step = 4) {
  fail_each_allocation(program, expect_resources, step);
}

}  // namespace ferry::test
