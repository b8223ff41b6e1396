// What a program writes that ends in the middle, and what its file may hold then.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include <ferry/runtime.hpp>

#include "support/files.hpp"

namespace ferry::test {

// The writes of a program, which follow from its seed: each fills one of the file's slots, which
// are aligned to nothing.
struct KilledWrites {
  static constexpr std::size_t slots = 90;
  static constexpr std::size_t slot_bytes = 777;

  std::uint64_t seed;

  std::uint64_t mix(std::uint64_t number) const {
    std::uint64_t word = (seed + number) * 0x9e3779b97f4a7c15ULL;
    word = (word ^ word >> 29) * 0xbf58476d1ce4e5b9ULL;
    return word ^ word >> 32;
  }
  std::size_t slot(std::uint64_t write) const { return mix(write) % slots; }
  char byte(std::uint64_t write, std::size_t at) const {
    return static_cast<char>(1 + (mix(write) / 1024 + at * 7) % 255);
  }
  std::string data(std::uint64_t write) const {
    std::string bytes(slot_bytes, '\0');
    for (std::size_t at = 0; at < slot_bytes; ++at)
      bytes[at] = byte(write, at);
    return bytes;
  }
};

// How the program reaches its file.
struct KilledSetup {
  const char* name;
  device::Placement placement;
  unsigned cache_pages;  // 0: none
  int flags = 0;         // of the handle, besides O_RDWR | O_CREAT
};

inline void PrintTo(const KilledSetup& setup, std::ostream* out) {
  *out << setup.name;
}

// In memory that the killed process leaves. Writes count from 1.
struct KilledProgress {
  std::atomic<std::uint64_t> begun{0};
  std::atomic<std::uint64_t> kept{0};  // handed over, as Ferry acknowledged
};

// Empty, or what is wrong with the file.
inline std::string look_at_killed(const std::string& path, const KilledWrites& writes,
                                  const KilledProgress& progress) {
  const std::string found = read_file(path);
  std::size_t end = 0;
  for (std::uint64_t write = 1; write <= progress.begun; ++write)
    end = std::max(end, (writes.slot(write) + 1) * KilledWrites::slot_bytes);
  if (found.size() > end)
    return std::to_string(found.size()) + " bytes, and no write ends after " + std::to_string(end);
  for (std::size_t slot = 0; slot < KilledWrites::slots; ++slot) {
    // The last one that is kept, and those after it.
    std::vector<std::uint64_t> possible;
    for (std::uint64_t write = 1; write <= progress.begun; ++write) {
      if (writes.slot(write) != slot) continue;
      if (write <= progress.kept) possible.clear();
      possible.push_back(write);
    }
    const bool may_be_absent = possible.empty() || possible.front() > progress.kept;
    for (std::size_t i = 0; i < KilledWrites::slot_bytes; ++i) {
      const std::size_t at = slot * KilledWrites::slot_bytes + i;
      const char byte = at < found.size() ? found[at] : '\0';
      const bool legal = (may_be_absent && byte == '\0') ||
                         std::any_of(possible.begin(), possible.end(), [&](std::uint64_t write) {
                           return writes.byte(write, i) == byte;
                         });
      if (!legal)
        return "byte " + std::to_string(at) + " of " + std::to_string(found.size()) + " after " +
               std::to_string(progress.begun) + " writes, " + std::to_string(progress.kept) +
               " of them kept";
    }
  }
  return "";
}

}  // namespace ferry::test
