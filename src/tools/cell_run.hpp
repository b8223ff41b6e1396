// One repeat of one cell: opens, transfers, syncs and closes on the device threads, and times each.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <ferry/ferry.hpp>

#include "tools/device_cache.hpp"
#include "tools/plan.hpp"
#include "tools/storage_counters.hpp"
#include "tools/usage.hpp"

namespace ferry::bench {

// What one repeat measured. A phase lasts from the first thread's begin to the last thread's end.
struct Sample {
  std::uint64_t elapsed_ns = 0;  // first open begins to last close ends
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
  std::vector<std::uint64_t> calls_of_part;
  bool deadline_reached = false;  // before everything was moved
  std::uint32_t sum = 0;          // of all words read; iterative and once only
  Usage callers;                  // the device threads, together
  Usage others;                   // all other threads of the process: the server's, and its workers
  RuntimeStatistics counted;
  StorageCounters storage;
  std::optional<DeviceCacheState> device_cache;  // reads through the device's cache only
  std::vector<std::uint64_t> latencies_ns;       // of the sampled calls, in ascending order
};

struct CellRun {
  const Cell& cell;
  unsigned repeat = 0;
  std::uint64_t pattern_seed = 0;  // of what is written
  int create_flags = 0;            // O_CREAT and O_EXCL or O_TRUNC, for writes
  std::string block_device;        // of block_device_folder(), or empty
};

// Throws ferry::Error when a call fails, ContentsError when the buffers hold the wrong bytes after
// reading. Files are closed either way.
Sample run_cell(Runtime& runtime, const CellRun& run, const std::atomic<bool>& stopped);

}  // namespace ferry::bench
