// Verifies the data, outside timed regions.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <vector>

#include <ferry/ferry.hpp>

#include "harness/layout.hpp"
#include "harness/plan.hpp"
#include "harness/programs.hpp"
#include "programs/stored_file.hpp"

namespace ferry::bench {

// What one file of a read cell must contain. Functions throw ferry::Error.
class Expected {
 public:
  Expected(const Cell& cell, unsigned file);
  void get(void* data, std::uint64_t bytes, std::uint64_t offset) const;
  // Throws ContentsError.
  void compare(const void* found, const void* expected, std::uint64_t bytes,
               std::uint64_t offset) const;

 private:
  const Cell& cell_;
  StoredFile plain_;
  std::optional<PatternPlace> pattern_;
};

// What a read cell's files must be: readable, regular, large enough. Throws ferry::Error.
void check_readable(const Cell& cell);

// As MeasuredDevice::verify_reads().
void verify_reads(Runtime& runtime, const Cell& cell, const std::atomic<bool>& stopped);

// The seed of the pattern that the cell's files hold, as the first whole block that fits one says.
// Throws ContentsError where none does, ferry::Error.
std::uint64_t find_pattern_seed(const Cell& cell);

// The sum of all words of the files, read likewise.
std::uint32_t sum_files(const Cell& cell);

// What was read at `offset` of the part's file, where another job writes over it meanwhile. Throws
// ContentsError.
void verify_either(const Cell& cell, const ThreadPart& part, const unsigned char* found,
                   std::uint64_t offset);

// What is left in the buffer after a timed read of so many calls, that is the last of every slot.
void verify_buffer(const ProgramInput& input, std::uint64_t calls);

// The same of mixed calls.
void verify_last_reads(const ProgramInput& input, const ProgramOutput& output);

// Reads back, in that way, what a write cell has written: everything, [begin, end) of one file, or
// the places of so many calls of each part, or of one. Throws ContentsError, ferry::Error.
void verify_written(const Cell& cell, std::uint64_t pattern_seed);
void verify_written(const Cell& cell, std::uint64_t pattern_seed, unsigned file,
                    std::uint64_t begin, std::uint64_t end);
void verify_written(const Cell& cell, std::uint64_t pattern_seed,
                    const std::vector<std::uint64_t>& calls_of_part);
void verify_part_written(const Cell& cell, std::uint64_t pattern_seed, unsigned index,
                         std::uint64_t calls);

// Makes an empty file with the cell's stripes. Throws ferry::Error.
void make_striped(const Cell& cell, const std::string& path);

// Makes a file that a cell reads, or writes over, with the stripes that it asks for. It is as
// durable as what is measured, so that this does not pay for it. Throws ferry::Error, EINTR once
// stopped.
void make_file(const Cell& cell, std::uint64_t pattern_seed, unsigned file,
               const std::atomic<bool>& stopped);

// Writes the places that those calls have not written, of all parts or of one. Throws ferry::Error.
void complete_written(const Cell& cell, std::uint64_t pattern_seed,
                      const std::vector<std::uint64_t>& calls_of_part);
void complete_part(const Cell& cell, std::uint64_t pattern_seed, unsigned index,
                   std::uint64_t calls);

}  // namespace ferry::bench
