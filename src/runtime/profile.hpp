// The profile of `ferry tune`, as TOML (schema "ferry.profile/1"; docs/guide/tuning.md): for one
// machine, the best settings for each of its storages.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <ferry/device/crossovers.hpp>

#include "base/mounts.hpp"

namespace ferry {

// A profile's name for a storage: file system and block device, or else the mount point.
struct StorageName {
  std::string file_system;
  std::string block_device;              // "vda1"; empty: by mount_point
  std::uint64_t block_device_bytes = 0;  // 0: not compared
  std::string mount_point;
};

struct StorageProfile {
  std::string device;    // whose calls it is for: "cpu"
  std::string measured;  // when
  StorageName name;
  // Absent: not tuned, so the built-in value applies.
  std::optional<std::uint32_t> page_bytes;
  std::optional<std::uint32_t> readahead_bytes;
  std::optional<unsigned> server_threads;
  std::optional<unsigned> queue_depth;
  device::Crossovers crossovers;
  // Of collective transfers (docs/guide/mpi.md).
  std::optional<unsigned> writers_per_node;
  std::optional<std::int64_t> collective_buffer_bytes;
};

struct Profile {
  std::string cpu_model;
  unsigned cpus_usable = 0;
  std::vector<StorageProfile> storages;
};

// A profile's error in one line, with its position.
struct ProfileError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Throws ProfileError.
Profile parse_profile(std::string_view text);

// The storage mounted there, as a profile would name it.
StorageName storage_name(const Mount& mount);

// Whether a name in a profile means that storage.
bool is_same_storage(const StorageName& in_profile, const StorageName& here);

// "ext4 on vda", "tmpfs at /dev/shm"
std::string describe(const StorageName& name);

}  // namespace ferry
