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

// What a profile is compared with.
struct Surroundings {
  std::string cpu_model;
  unsigned cpus_usable = 0;
  std::vector<Mount> mounts;
  Mount storage;  // where RuntimeOptions::storage_path lies; its type is empty where nothing does
};

struct Tuning {
  RuntimeOptions options;  // with what was left to the profile filled in
  device::StorageTunings tunings;
  std::uint32_t main_index = 0;  // of the storage that the runtime is set up for, in them
  std::string crossovers_source;
  unsigned queue_depth = 0;
  ProfileInfo profile;
  std::vector<std::string> notes;

  const device::StorageTuning& main() const { return tunings.list[main_index]; }
};

// $FERRY_PROFILE, else ferry/profile.toml in $XDG_CONFIG_HOME or ~/.config. Empty: there is to be
// none (FERRY_PROFILE is set and empty, or there is no such folder).
std::string profile_path();

// With what `text`, the profile that was found at `path`, says; throws nothing for what is wrong
// with it.
Tuning tune(const RuntimeOptions& options, const std::string& path, const std::string& text,
            const Surroundings& here);

// The same with this process's profile, machine and mounts.
Tuning tune(const RuntimeOptions& options);

// What this process's profile says of the storage that `path` lies on, or would lie on; absent
// where it says nothing of it, or does not hold here.
std::optional<StorageProfile> profile_of(const std::string& path);

}  // namespace ferry
