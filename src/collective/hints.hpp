// MPI_Info hints: read by their known names, and shown as they are in force.
#pragma once

#include <string>
#include <vector>

#include <ferry/collective.hpp>

namespace ferry::collective {

// What is in force, the same on all ranks. Crosses the wire as it is.
struct Settings {
  Method write_method = Method::automatic;
  Method read_method = Method::automatic;
  int writers = 0;
  std::int64_t buffer_bytes = 0;
  std::int64_t alignment_bytes = 0;
  bool write_out = true;
};

// Hints go before the other options. Adds a line to `warnings` for each that is unknown or wrong.
Settings settings_of(const Options& options, std::vector<std::string>& warnings);

// The caller frees it.
MPI_Info hints_of(const Settings& settings);

}  // namespace ferry::collective
