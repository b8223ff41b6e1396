// Rates of what is done to files as wholes, as mdtest measures them: each thread makes its files,
// then asks for their sizes, then opens and reads them, then removes them.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include <ferry/ferry.hpp>

#include "harness/cell_run.hpp"
#include "harness/latency_histogram.hpp"
#include "harness/usage.hpp"

namespace ferry::bench {

// In this order. `create` opens, writes and closes, `read` opens, reads and closes.
enum class MetadataPhase : std::uint8_t { create, stat, read, remove };
inline constexpr std::array<const char*, 4> metadata_phase_names = {"create", "stat", "read",
                                                                    "remove"};

struct MetadataSample {
  struct Phase {
    std::uint64_t elapsed_ns = 0;  // from the first thread's begin to the last one's end
    LatencyHistogram latencies;    // of every file
    Usage callers;
  };
  std::array<Phase, metadata_phase_names.size()> phases;
  std::uint64_t files = 0;
};

// One repeat of a cell with program `metadata`. Between the phases, untimed, plain calls compare
// what was made, and look that what was removed is gone. Throws ferry::Error and ContentsError;
// files may be left then.
MetadataSample run_metadata(Runtime& runtime, const CellRun& run, const std::atomic<bool>& stopped);

}  // namespace ferry::bench
