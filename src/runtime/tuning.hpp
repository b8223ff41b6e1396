// Chooses a runtime's settings: from its options, else from this machine's profile for the storage,
// else built-in ones.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <ferry/runtime.hpp>

#include "base/mounts.hpp"
#include "runtime/profile.hpp"

namespace ferry {

// The facts that a profile is compared with.
struct Surroundings {
  std::string cpu_model;
  unsigned cpus_usable = 0;
  std::vector<Mount> mounts;
  Mount storage;  // of RuntimeOptions::storage_path; an empty type: no such path
};

struct Tuning {
  RuntimeOptions options;  // including settings from the profile
  device::StorageTunings tunings;
  std::uint32_t main_index = 0;  // for the storage that the runtime is set up for
  std::string crossovers_source;
  unsigned queue_depth = 0;
  ProfileInfo profile;
  std::vector<std::string> notes;

  const device::StorageTuning& main() const { return tunings.list[main_index]; }
};

// $FERRY_PROFILE, else ferry/profile.toml in $XDG_CONFIG_HOME or ~/.config. Empty: none
// (FERRY_PROFILE is set and empty, or there is no such folder).
std::string profile_path();

// Applies `text`, the profile found at `path`; does not throw for its errors.
Tuning tune(const RuntimeOptions& options, const std::string& path, const std::string& text,
            const Surroundings& here);

// The same with this process's profile, machine and mounts.
Tuning tune(const RuntimeOptions& options);

// The profile's settings for the storage of `path`, existing or not; absent if the profile has none
// or does not apply here.
std::optional<StorageProfile> profile_of(const std::string& path);

}  // namespace ferry
