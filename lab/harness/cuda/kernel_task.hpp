// Input and output of the measured kernel: plain structures in GPU memory, which the host fills
// before a launch and reads after it. A group is one "thread" of a cell.
#pragma once

#include <cstdint>

#include <ferry/device.hpp>

#include "harness/latency_histogram.hpp"
#include "harness/part.hpp"

namespace ferry::bench {

// In the order in which a launch does those that it is asked for.
enum class KernelStep : std::uint8_t {
  evict,    // drops what the GPU's cache has of the file; outside of the measurement, as is `warm`
  warm,     // opens the file once more and reads the group's part into that cache
  prepare,  // fills the buffer: with what is written first, or with what no file here contains
  open,
  transfer,
  flush,
  sync,
  close,
  cool,       // ends `warm`
  read_back,  // one pass over some of the part's calls, each into a place of its own
};
inline constexpr unsigned kernel_steps = 10;

FERRY_DEVICE constexpr std::uint32_t bit_of(KernelStep step) {
  return 1U << static_cast<unsigned>(step);
}

// The first call of a group that did not do what it should.
struct KernelFault {
  enum class Kind : std::uint32_t { none, call, short_transfer, wrong_byte };
  Kind kind;
  KernelStep step;
  std::int64_t result;   // the negative errno, or the bytes that were moved
  std::uint64_t offset;  // in the file: where the transfer began, or of the wrong byte
};

struct KernelGroup {
  // Given.
  ThreadPart part;
  const char* path;
  const std::uint32_t* order;  // of the calls
  unsigned char* buffer;       // queue_depth times call_bytes, or `calls` times for read_back
  std::uint64_t pattern_seed;  // of the file: what is written, or must be read
  device::Pending* pending;    // queue_depth of them
  std::uint64_t* began_ns;     // likewise
  LatencyHistogram* latencies;
  // Told.
  std::int32_t file;
  std::int32_t warm_file;
  KernelFault fault;
  Span spans[kernel_steps];
  std::uint64_t operations;  // the first so many of the order were done
  bool deadline_reached;
};

struct KernelTask {
  const device::Context* context;
  KernelGroup* groups;
  std::uint32_t first_group;  // a launch may be for some of them
  std::uint32_t steps;        // bits
  device::Placement placement;
  bool writes;
  bool checks;       // what is read is compared while the time runs
  bool drops_pages;  // `cool` does
  std::int32_t open_flags;
  std::uint32_t queue_depth;
  std::uint64_t call_bytes;
  std::uint64_t calls;         // transfer: all of them; read_back: so many
  std::uint64_t first_call;    // of read_back
  std::uint64_t latency_mask;  // one call in mask + 1 is timed, a power of two
  std::uint64_t deadline_ns;   // transfers start no later than this after the first; 0: none
};

}  // namespace ferry::bench
