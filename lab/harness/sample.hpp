// The result of one repeat of a cell, combined from its threads' times and from counters. The same
// for all devices.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include <ferry/ferry.hpp>

#include "harness/device_cache.hpp"
#include "harness/latency_histogram.hpp"
#include "harness/plan.hpp"
#include "harness/programs.hpp"
#include "harness/usage.hpp"

namespace ferry::bench {

// Calls per second of the slowest thread, of the median one and of the fastest.
struct ThreadRates {
  double min = 0;
  double median = 0;
  double max = 0;
};

// A phase lasts from the first thread's begin to the last thread's end.
struct Sample {
  std::uint64_t begin_ns = 0;     // of the first open, behind a ramp
  std::uint64_t io_begin_ns = 0;  // of the first transfer, likewise
  std::uint64_t elapsed_ns = 0;   // first open begins to last close ends
  std::uint64_t open_ns = 0;
  std::uint64_t io_ns = 0;       // stream: the transfers; else the slowest thread's time in calls
  std::uint64_t compute_ns = 0;  // iterative, once: the slowest thread's time in the loop elsewhere
  std::uint64_t flush_ns = 0;
  std::uint64_t sync_ns = 0;
  std::uint64_t close_ns = 0;
  std::uint64_t first_done_ns = 0;  // the first thread's last transfer, since transfers began
  std::uint64_t last_done_ns = 0;
  std::uint64_t operations = 0;
  std::uint64_t bytes = 0;
  std::uint64_t distinct_bytes = 0;  // of places that several calls went to once
  std::vector<std::uint64_t> calls_of_part;
  ThreadRates rates;
  bool deadline_reached = false;  // before everything was moved
  std::uint32_t sum = 0;          // of all words read; iterative and once only
  // The device threads, together; of the device `cuda`, the host's thread that launches kernels and
  // waits for them.
  Usage callers;
  Usage others;  // all other threads of the process: the server's, and its workers
  RuntimeStatistics counted;
  StorageCounters storage;
  std::optional<DeviceCacheState> device_cache;  // reads through the device's cache only
  LatencyHistogram latencies;                    // of the calls that were timed; mixed: the writes
  std::uint64_t read_operations = 0;             // mixed
  LatencyHistogram read_latencies;               // mixed
  // Of ranks: what the report says in the place of what only threads and warps have.
  std::shared_ptr<const nlohmann::ordered_json> of_ranks;
};

// What one thread of a cell did in the timed region.
struct ThreadResult {
  Span open;
  Span transfers;
  Span flush;
  Span sync;
  Span close;
  Usage usage;
  ProgramOutput output;
};

// The sample of threads that worked on these parts of a cell, without what is counted for the whole
// process.
Sample combine(const Cell& cell, const std::vector<ThreadResult>& threads,
               const std::vector<unsigned>& parts);
// What jobs did side by side, likewise: from the first begin to the last end.
Sample combine(const std::vector<Sample>& jobs);

// What the runtime, the process and the storage count. begin() and end() are called around the
// timed region by one thread; the filling of the device's cache is counted before that.
class Counting {
 public:
  Counting(std::function<RuntimeStatistics()> read, const Cell& cell, std::string block_device);

  void begin_filling() { filling_ = read_(); }
  void end_filling() { filling_ = difference(read_(), filling_); }
  void begin();
  void end();

  // Adds what was counted to the sample of all threads.
  void add_to(Sample& sample);
  // The sample of threads that worked on these parts of the cell.
  Sample make_sample(const std::vector<ThreadResult>& threads, const std::vector<unsigned>& parts);

 private:
  const std::function<RuntimeStatistics()> read_;
  const Cell& cell_;
  const std::string block_device_;
  const Network network_;
  RuntimeStatistics filling_;
  // Before the timed region; afterwards, what was counted within it.
  RuntimeStatistics statistics_;
  Usage process_;
  Usage counting_;  // of the calling thread, in end()
  StorageCounters storage_;
};

}  // namespace ferry::bench
