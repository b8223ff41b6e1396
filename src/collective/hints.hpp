// MPI_Info hints: read by their known names, and shown as they are in force.
#pragma once

#include <string>
#include <vector>

#include <ferry/collective.hpp>

namespace ferry::collective {

// Who chose a setting.
enum class Origin : std::uint8_t { rule, asked, profile, stripes };

// What is in force, the same on all ranks. Crosses the wire as it is.
struct Settings {
  Method write_method = Method::automatic;
  Method read_method = Method::automatic;
  int writers = 0;
  std::int64_t buffer_bytes = 0;
  std::int64_t alignment_bytes = 0;
  int stripe_count = 0;
  bool write_out = true;
  bool node_merge = true;
  Sieving read_sieving = Sieving::automatic;
  Sieving write_sieving = Sieving::automatic;
  std::int64_t read_sieve_bytes = 4 << 20;
  std::int64_t write_sieve_bytes = 512 << 10;
  int writers_per_node = 0;  // of the profile; 0: it says nothing
  Origin writers_origin = Origin::rule;
  Origin buffer_origin = Origin::rule;
};

// Hints go before the other options. Adds a line to `warnings` for each that is unknown or wrong.
Settings settings_of(const Options& options, std::vector<std::string>& warnings);

// Fills in what nobody has asked for, from the profile of this machine (docs/guide/tuning.md).
void take_profile(Settings& settings, const std::string& path);

// The caller frees it.
MPI_Info hints_of(const Settings& settings);

}  // namespace ferry::collective
