// What is fastest on a storage, as far as it was measured; plain data, the same for all groups.
#pragma once

#include <cstdint>

#include <ferry/device/crossovers.hpp>

namespace ferry::device {

struct StorageTuning {
  std::uint64_t device = 0;  // FileStatus::device of the files that it is for
  Crossovers crossovers;
  std::uint32_t readahead_bytes_max = 8 << 20;  // ahead of one stream; 0: none
};

// Which one is a file's is decided when it is opened.
struct StorageTunings {
  static constexpr std::uint32_t count_max = 8;
  StorageTuning list[count_max];  // the first is for the files of every other storage
  std::uint32_t count = 1;

  FERRY_DEVICE std::uint32_t find(std::uint64_t device) const {
    for (std::uint32_t i = 1; i < count; ++i)
      if (list[i].device == device) return i;
    return 0;
  }
};

}  // namespace ferry::device
