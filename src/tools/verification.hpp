// Whether the right bytes arrived. All of it happens outside the timed region.
#pragma once

#include <atomic>
#include <cstdint>
#include <stdexcept>

#include <ferry/ferry.hpp>

#include "tools/plan.hpp"
#include "tools/programs.hpp"

namespace ferry::bench {

// The contents are not what they should be; says where.
struct ContentsError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// What a read cell's file must be: readable, regular, large enough. Throws ferry::Error.
void check_readable(const Cell& cell);

// One pass of a read cell through its own interface, each call compared with the pattern, or with
// what a plain pread of the same bytes gives. Throws ContentsError, ferry::Error.
void verify_reads(Runtime& runtime, const Cell& cell, const std::atomic<bool>& stopped);

// The sum of all words of the file, by plain pread.
std::uint32_t sum_file(const Cell& cell);

// What is left in the buffer after a timed read, that is the last call of every slot.
void verify_buffer(const ProgramInput& input);

// Reads back, by plain pread, what a write cell has written. Throws ContentsError, ferry::Error.
void verify_written(const Cell& cell, std::uint64_t pattern_seed);

}  // namespace ferry::bench
