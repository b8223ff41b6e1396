// Verifies the data that was read.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "harness/plan.hpp"

namespace ferry::bench {

// The contents are not what they should be; says where.
struct ContentsError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Throws the ContentsError for a wrong byte of a file that was read by way of `interface`.
[[noreturn]] void report_wrong_byte(const std::string& path, std::uint64_t offset,
                                    Interface interface);

// Throws ContentsError unless both are the same; `offset` is where they belong in the file.
void compare_contents(const std::string& path, Interface interface, const void* found,
                      const void* expected, std::uint64_t bytes, std::uint64_t offset);

}  // namespace ferry::bench
