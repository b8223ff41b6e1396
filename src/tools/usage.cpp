#include "tools/usage.hpp"

#include <chrono>

#include <sys/resource.h>

namespace ferry::bench {
namespace {

std::uint64_t to_ns(const timeval& time) {
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(time.tv_usec) * 1'000;
}

}  // namespace

Usage& Usage::operator+=(const Usage& other) {
  user_cpu_ns += other.user_cpu_ns;
  system_cpu_ns += other.system_cpu_ns;
  voluntary_switches += other.voluntary_switches;
  involuntary_switches += other.involuntary_switches;
  return *this;
}

Usage Usage::operator-(const Usage& earlier) const {
  // The kernel's split into user and system time may step back by a tick.
  const auto less = [](std::uint64_t a, std::uint64_t b) { return a > b ? a - b : 0; };
  return Usage{less(user_cpu_ns, earlier.user_cpu_ns), less(system_cpu_ns, earlier.system_cpu_ns),
               less(voluntary_switches, earlier.voluntary_switches),
               less(involuntary_switches, earlier.involuntary_switches)};
}

Usage thread_usage() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return Usage{to_ns(usage.ru_utime), to_ns(usage.ru_stime),
               static_cast<std::uint64_t>(usage.ru_nvcsw),
               static_cast<std::uint64_t>(usage.ru_nivcsw)};
}

RuntimeStatistics difference(const RuntimeStatistics& later, const RuntimeStatistics& earlier) {
  RuntimeStatistics result;
  constexpr std::uint64_t RuntimeStatistics::*members[] = {
      &RuntimeStatistics::calls,
      &RuntimeStatistics::batches,
      &RuntimeStatistics::doorbells,
      &RuntimeStatistics::parks,
      &RuntimeStatistics::staged_calls,
      &RuntimeStatistics::staged_bytes,
      &RuntimeStatistics::requests,
      &RuntimeStatistics::refused_requests,
      &RuntimeStatistics::bytes_read,
      &RuntimeStatistics::bytes_written,
      &RuntimeStatistics::inline_operations,
      &RuntimeStatistics::engine_operations,
      &RuntimeStatistics::pool_operations,
      &RuntimeStatistics::server_parks,
      &RuntimeStatistics::server_cpu_ns,
      &RuntimeStatistics::server_voluntary_switches,
      &RuntimeStatistics::server_involuntary_switches,
  };
  for (const auto member : members)
    result.*member = later.*member - earlier.*member;
  for (const NamedCounter& counter : cache_counters)
    result.cache.*counter.member = later.cache.*counter.member - earlier.cache.*counter.member;
  return result;
}

std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::steady_clock::now().time_since_epoch())
                                        .count());
}

}  // namespace ferry::bench
