// Nanoseconds since 1970 and the system's form of them.
#pragma once

#include <cstdint>
#include <ctime>

namespace ferry {

inline constexpr std::int64_t ns_in_second = 1'000'000'000;

inline timespec timespec_of(std::int64_t ns) {
  const std::int64_t rest = (ns % ns_in_second + ns_in_second) % ns_in_second;
  return {(ns - rest) / ns_in_second, rest};
}

inline std::int64_t ns_of(const timespec& time) {
  return time.tv_sec * ns_in_second + time.tv_nsec;
}

}  // namespace ferry
