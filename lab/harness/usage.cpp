#include "harness/usage.hpp"

#include <algorithm>
#include <chrono>

#include <sys/resource.h>
#include <time.h>

namespace ferry::bench {
namespace {

std::uint64_t to_ns(const timeval& time) {
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(time.tv_usec) * 1'000;
}

std::uint64_t less(std::uint64_t a, std::uint64_t b) {
  return a > b ? a - b : 0;
}

Usage usage_of(int who) {
  rusage usage{};
  getrusage(who, &usage);
  return Usage{to_ns(usage.ru_utime), to_ns(usage.ru_stime),
               static_cast<std::uint64_t>(usage.ru_nvcsw),
               static_cast<std::uint64_t>(usage.ru_nivcsw)};
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
  return Usage{less(user_cpu_ns, earlier.user_cpu_ns), less(system_cpu_ns, earlier.system_cpu_ns),
               less(voluntary_switches, earlier.voluntary_switches),
               less(involuntary_switches, earlier.involuntary_switches)};
}

Usage thread_usage() {
  // The kernel adds up a running thread's time at ticks, and when somebody reads its clock.
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return usage_of(RUSAGE_THREAD);
}

Usage process_usage() {
  return usage_of(RUSAGE_SELF);
}

Usage others(const Usage& process, const Usage& callers) {
  Usage rest;
  const std::uint64_t total_ns = less(process.user_cpu_ns + process.system_cpu_ns,
                                      callers.user_cpu_ns + callers.system_cpu_ns);
  // Each split is an estimate of its own, so that their difference may lie outside.
  rest.user_cpu_ns = std::min(less(process.user_cpu_ns, callers.user_cpu_ns), total_ns);
  rest.system_cpu_ns = total_ns - rest.user_cpu_ns;
  rest.voluntary_switches = less(process.voluntary_switches, callers.voluntary_switches);
  rest.involuntary_switches = less(process.involuntary_switches, callers.involuntary_switches);
  return rest;
}

RuntimeStatistics difference(const RuntimeStatistics& later, const RuntimeStatistics& earlier) {
  RuntimeStatistics result;
  for (const auto& counter : runtime_counters)
    result.*counter.member = later.*counter.member - earlier.*counter.member;
  for (const auto& counter : cache_counters)
    result.cache.*counter.member = later.cache.*counter.member - earlier.cache.*counter.member;
  return result;
}

std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::steady_clock::now().time_since_epoch())
                                        .count());
}

}  // namespace ferry::bench
