// The fastest settings for a storage, as far as measured; plain data, the same for all groups.
#pragma once

#include <cstdint>

#include <ferry/device/crossovers.hpp>

namespace ferry::device {

struct StorageTuning {
  std::uint64_t device = 0;  // FileStatus::device of its files
  Crossovers crossovers;
  std::uint32_t readahead_bytes_max = 8 << 20;  // per stream; 0: none
};

// Chosen for a file when it is opened.
struct StorageTunings {
  static constexpr std::uint32_t count_max = 8;
  StorageTuning list[count_max];  // the first is for all other storages
  std::uint32_t count = 1;

  FERRY_DEVICE std::uint32_t find(std::uint64_t device) const {
    for (std::uint32_t i = 1; i < count; ++i)
      if (list[i].device == device) return i;
    return 0;
  }
};

}  // namespace ferry::device
