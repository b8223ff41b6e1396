// MPI_Info hints: parses the known ones, and shows those in force.
#pragma once

#include <string>
#include <vector>

#include <ferry/collective.hpp>

namespace ferry::collective {

// Who chose a setting.
enum class Origin : std::uint8_t { rule, asked, profile, stripes };

// The settings in force, identical on all ranks. Sent as is.
struct Settings {
  Method write_method = Method::automatic;
  Method read_method = Method::automatic;
  int writers = 0;
  std::int64_t buffer_bytes = 0;
  std::int64_t alignment_bytes = 0;
  int stripe_count = 0;
  WriteOut write_out = WriteOut::enabled;
  bool node_merge = true;
  Sieving read_sieving = Sieving::automatic;
  Sieving write_sieving = Sieving::automatic;
  std::int64_t read_sieve_bytes = 4 << 20;
  std::int64_t write_sieve_bytes = 512 << 10;
  int writers_per_node = 0;  // from the profile; 0: not set there
  Origin writers_origin = Origin::rule;
  Origin buffer_origin = Origin::rule;
};

// Hints override the other options. Adds a line to `warnings` for each unknown or invalid one.
Settings settings_of(const Options& options, std::vector<std::string>& warnings);

// Fills in open settings from this machine's profile (docs/guide/tuning.md).
void take_profile(Settings& settings, const std::string& path);

// The names of the hints that change something here.
std::vector<std::string> hint_names();
// Whether an info has it; MPI_INFO_NULL has none.
bool has_hint(MPI_Info info, const std::string& name);
// Whether a hint of these takes the value.
bool is_value_of(const std::string& name, const std::string& value);

// The caller frees it.
MPI_Info hints_of(const Settings& settings);

}  // namespace ferry::collective
