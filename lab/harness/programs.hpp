// The measured loops: one device thread's work between opening and syncing.
#pragma once

#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/file_access.hpp"
#include "harness/latency_histogram.hpp"
#include "harness/layout.hpp"
#include "harness/plan.hpp"

namespace ferry::bench {

// One call in this many is timed, a power of two; timing each small call would change what it
// costs, and is done where the cell asks for it alone.
unsigned latency_stride(const Cell& cell);

// Order in which one thread's calls go over its part: each of the places 0 to count - 1 once, or
// as they are drawn.
std::vector<std::uint32_t> make_order(const Cell& cell, unsigned thread);
// The places to which the first so many of them go, each once.
std::vector<bool> places_of(const Cell& cell, unsigned thread, std::uint64_t calls);

// The contents are not what they should be; says where.
struct ContentsError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Throws the ContentsError for a wrong byte of a file that was read by way of `interface`.
[[noreturn]] void report_wrong_byte(const std::string& path, std::uint64_t offset,
                                    Interface interface);

// Throws the ferry::Error for a call that failed (a negative errno) or moved less than asked.
[[noreturn]] void report_call(const Cell& cell, const ThreadPart& part, std::int64_t moved,
                              std::uint64_t offset);

struct ProgramInput {
  const Cell& cell;
  const Accesses& files;
  int open_flags;         // of program files, which opens and closes itself
  unsigned char* buffer;  // device memory, cell.buffer_bytes()
  ThreadPart part;
  std::uint64_t pattern_seed;  // of the files: what is written, or must be read
  const std::vector<std::uint32_t>& order;
  const std::atomic<bool>& stopped;

  FileAccess& file() const { return *files.front(); }
  // Where a call goes. A timed run goes over its part again and again.
  std::uint64_t offset_of(std::uint64_t call) const {
    return part.offset_of(order[call < order.size() ? call : call % order.size()]);
  }
};

struct ProgramOutput {
  std::uint64_t operations = 0;       // the first so many of the order were done
  std::uint64_t ramp_operations = 0;  // of these the first, which do not count
  std::uint64_t ramp_ns = 0;          // their time
  bool deadline_reached = false;
  std::uint64_t calls_ns = 0;    // iterative, once: inside the calls
  std::uint64_t compute_ns = 0;  // iterative, once: the rest of the loop
  std::uint32_t sum = 0;         // iterative, once: of the words that were read
  LatencyHistogram latencies;
};

// Makes the buffer ready, outside the timed region: for writes with what goes first, for reads with
// bytes that no file here contains.
void prepare_buffer(const ProgramInput& input);

// Throws ferry::Error when a call fails or moves less than asked, EINTR when stopped, and
// ContentsError where the cell checks what it reads.
void run_program(const ProgramInput& input, ProgramOutput& output);

}  // namespace ferry::bench
