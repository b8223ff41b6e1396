// The measured loops: one device thread's work between opening and syncing.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
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
// What a call does. Of mixed ones chance has drawn it, the same in every repeat, and of collective
// ones the same for all ranks.
MeasuredOperation operation_of(const Cell& cell, unsigned thread, std::uint64_t call);
// The places to which the first so many of them go, where they are mixed to write.
std::vector<bool> places_of(const Cell& cell, unsigned thread, std::uint64_t calls);

// The contents are not what they should be; says where.
struct ContentsError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Throws the ContentsError for a wrong byte of a file that was read by way of `interface`.
[[noreturn]] void report_wrong_byte(const std::string& path, std::uint64_t offset,
                                    Interface interface);

// Throws the ferry::Error for a call that failed (a negative errno) or moved less than asked.
[[noreturn]] void report_call(const Cell& cell, MeasuredOperation operation, const ThreadPart& part,
                              std::int64_t moved, std::uint64_t offset);

struct ProgramInput {
  const Cell& cell;
  const Accesses& files;
  int open_flags;         // of program files, which opens and closes itself
  unsigned char* buffer;  // device memory, cell.buffer_bytes()
  ThreadPart part;
  std::uint64_t pattern_seed;  // of the files: what is written, or must be read
  const std::vector<std::uint32_t>& order;
  const std::atomic<bool>& stopped;
  unsigned thread = 0;
  const std::atomic<bool>* others_failed = nullptr;  // of the same repeat: it is in vain then
  // Of ranks: wrong bytes are noted, not thrown, as the others may wait for this rank's next call.
  bool notes_wrong = false;
  // Of collective calls with a limit in time or a rate: gets this rank's time since the first call,
  // and returns that of all. They call it behind the same calls and waits, and so end behind the
  // same one. Throws on all of them where one is interrupted.
  std::function<std::uint64_t(std::uint64_t)> agree_on_time = {};

  FileAccess& file() const { return *files.front(); }
  // The file that a place lies in, and where in it.
  FileAccess& file_at(std::uint64_t& offset) const {
    if (cell.open_files == 0) return file();
    const std::uint64_t bytes = cell.piece_of_file_bytes();
    FileAccess& found = *files[(offset - part.begin) / bytes];
    offset %= bytes;
    return found;
  }
  // Where a call goes. Runs of several passes, or for a time, go over their part again and again.
  std::uint32_t place_of_call(std::uint64_t call) const {
    return order[call < order.size() ? call : call % order.size()];
  }
  std::uint64_t offset_of(std::uint64_t call) const { return part.offset_of(place_of_call(call)); }
  unsigned char* buffer_of(unsigned slot, MeasuredOperation operation) const {
    const bool second = cell.mixes() && operation == MeasuredOperation::read;
    return buffer + (slot + (second ? cell.queue_depth : 0)) * cell.call_bytes();
  }
  // Of what mixed calls find where none has written yet.
  std::uint64_t made_seed() const { return made_seed_of(pattern_seed); }
  MeasuredOperation operation_of(std::uint64_t call) const {
    return cell.mixes() ? bench::operation_of(cell, thread, call) : cell.operation;
  }
};

struct ProgramOutput {
  std::uint64_t operations = 0;       // the first so many of the order were done
  std::uint64_t ramp_operations = 0;  // of these the first, which do not count
  std::uint64_t ramp_ns = 0;          // their time
  bool deadline_reached = false;
  bool wrong = false;            // noted
  std::uint64_t calls_ns = 0;    // iterative, once: inside the calls
  std::uint64_t compute_ns = 0;  // iterative, once: the rest of the loop
  std::uint32_t sum = 0;         // iterative, once: of the words that were read
  LatencyHistogram latencies;    // mixed: of the writes
  // Mixed calls.
  std::uint64_t read_operations = 0;  // without those of the ramp
  LatencyHistogram read_latencies;
  struct LastRead {
    unsigned slot;
    std::uint64_t offset;
    std::uint64_t pattern_seed;  // of what must have been found there
  };
  std::vector<LastRead> last_reads;
};

// Makes the buffer ready, outside the timed region: for writes with what goes first, for reads with
// bytes that no file here contains.
void prepare_buffer(const ProgramInput& input);

// Sleeps until then (now_ns()), in steps that an interruption ends. Throws ferry::Error, EINTR.
void wait_until(const ProgramInput& input, std::uint64_t due_ns);

// Opens every file of the part; and reads every place of it once, too.
void open_each(const ProgramInput& input);
void read_each_place(const ProgramInput& input);

// Throws ferry::Error when a call fails or moves less than asked, EINTR when stopped, and
// ContentsError where the cell checks what it reads.
void run_program(const ProgramInput& input, ProgramOutput& output);

}  // namespace ferry::bench
