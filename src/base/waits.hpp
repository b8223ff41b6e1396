// Tells a thread that has waited from one that was only held up.
#pragma once

#include <cstdint>

#include <sys/resource.h>

namespace ferry {

// How often the calling thread has waited: its voluntary context switches. Time alone says less,
// since others may have used its CPU meanwhile.
inline std::uint64_t waits_so_far() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return static_cast<std::uint64_t>(usage.ru_nvcsw);
}

}  // namespace ferry
