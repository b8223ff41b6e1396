#include "harness/usage.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
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

using Count = std::optional<std::uint64_t>;

Count difference(const Count& later, const Count& earlier) {
  if (!later || !earlier) return std::nullopt;
  return *later > *earlier ? *later - *earlier : 0;
}

void read_process(StorageCounters& counters) {
  std::ifstream file("/proc/self/io");
  std::string key;
  std::uint64_t value = 0;
  while (file >> key >> value) {
    if (key == "read_bytes:") counters.process_read_bytes = value;
    if (key == "write_bytes:") counters.process_write_bytes = value;
    if (key == "syscr:") counters.read_calls = value;
    if (key == "syscw:") counters.write_calls = value;
  }
}

// Fields of Documentation/block/stat: reads, merged, sectors read, ms, writes, merged, sectors
// written; sectors have 512 bytes here, whatever the device's have.
void read_device(const std::string& folder, StorageCounters& counters) {
  constexpr std::uint64_t sector_bytes = 512;
  std::ifstream file(folder + "/stat");
  std::uint64_t skip = 0;
  std::uint64_t sectors_read = 0;
  std::uint64_t sectors_written = 0;
  file >> skip >> skip >> sectors_read >> skip >> skip >> skip >> sectors_written;
  if (!file) return;
  counters.device_read_bytes = sectors_read * sector_bytes;
  counters.device_write_bytes = sectors_written * sector_bytes;
}

// Bytes that the connection has received; none where the descriptor is no TCP socket.
Count received_by(int fd) {
  int protocol = 0;
  socklen_t bytes = sizeof protocol;
  if (::getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &bytes) != 0 || protocol != IPPROTO_TCP)
    return std::nullopt;
  struct tcp_info info {};
  bytes = sizeof info;
  constexpr std::size_t needed =
      offsetof(struct tcp_info, tcpi_bytes_received) + sizeof info.tcpi_bytes_received;
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &bytes) != 0 || bytes < needed)
    return std::nullopt;
  return info.tcpi_bytes_received;
}

// Over all connections that are open. One that was closed since an earlier look makes the sum
// smaller, so less is claimed of what was received meanwhile, never more. Absent: there is none.
Count received_bytes() {
  Count sum;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    const Count received = received_by(std::atoi(entry.path().filename().c_str()));
    if (received) sum = sum.value_or(0) + *received;
  }
  return sum;
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
  // The kernel adds up a running thread's time at ticks, and when its clock is read.
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

StorageCounters StorageCounters::operator-(const StorageCounters& earlier) const {
  return {difference(process_read_bytes, earlier.process_read_bytes),
          difference(process_write_bytes, earlier.process_write_bytes),
          difference(device_read_bytes, earlier.device_read_bytes),
          difference(device_write_bytes, earlier.device_write_bytes),
          difference(read_calls, earlier.read_calls),
          difference(write_calls, earlier.write_calls),
          difference(network_read_bytes, earlier.network_read_bytes)};
}

StorageCounters read_storage_counters(const std::string& device_folder, Network network) {
  StorageCounters counters;
  read_process(counters);
  if (!device_folder.empty()) read_device(device_folder, counters);
  if (network == Network::counted) counters.network_read_bytes = received_bytes();
  return counters;
}

std::uint64_t now_ns() {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                        std::chrono::steady_clock::now().time_since_epoch())
                                        .count());
}

}  // namespace ferry::bench
