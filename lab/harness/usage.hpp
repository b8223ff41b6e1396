// What the operating system charges to threads, and its counters of storage transfers: evidence for
// cold and hot reads beyond the state of the page cache.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include <ferry/ferry.hpp>

namespace ferry::bench {

struct Usage {
  std::uint64_t user_cpu_ns = 0;
  std::uint64_t system_cpu_ns = 0;
  std::uint64_t voluntary_switches = 0;
  std::uint64_t involuntary_switches = 0;

  Usage& operator+=(const Usage& other);
  Usage operator-(const Usage& earlier) const;
};

// Of the calling thread, since it started.
Usage thread_usage();
// Of the whole process, those of its threads that have ended and the kernel's workers included. The
// kernel brings a thread that runs elsewhere up to date at its next tick.
Usage process_usage();
// What is left of `process` without `callers`: their sum is exact, the split into user and system
// time only as good as the kernel's.
Usage others(const Usage& process, const Usage& callers);

// Counters with the names that results give them: the page cache's, and the runtime's, of which
// results have the first `runtime_counters_shown`.
template <class Counters>
struct NamedCounter {
  const char* name;
  std::uint64_t Counters::*member;
};
inline constexpr std::array<NamedCounter<RuntimeStatistics>, 17> runtime_counters = {{
    {"calls", &RuntimeStatistics::calls},
    {"batches", &RuntimeStatistics::batches},
    {"doorbells", &RuntimeStatistics::doorbells},
    {"parks", &RuntimeStatistics::parks},
    {"staged_calls", &RuntimeStatistics::staged_calls},
    {"staged_bytes", &RuntimeStatistics::staged_bytes},
    {"requests", &RuntimeStatistics::requests},
    {"refused_requests", &RuntimeStatistics::refused_requests},
    {"bytes_read", &RuntimeStatistics::bytes_read},
    {"bytes_written", &RuntimeStatistics::bytes_written},
    {"inline_operations", &RuntimeStatistics::inline_operations},
    {"engine_operations", &RuntimeStatistics::engine_operations},
    {"pool_operations", &RuntimeStatistics::pool_operations},
    {"server_parks", &RuntimeStatistics::server_parks},
    {"server_cpu_ns", &RuntimeStatistics::server_cpu_ns},
    {"server_voluntary_switches", &RuntimeStatistics::server_voluntary_switches},
    {"server_involuntary_switches", &RuntimeStatistics::server_involuntary_switches},
}};
inline constexpr std::size_t runtime_counters_shown = 14;
inline constexpr std::array<NamedCounter<device::cache::Counters>, 11> cache_counters = {{
    {"hits", &device::cache::Counters::hits},
    {"misses", &device::cache::Counters::misses},
    {"fills", &device::cache::Counters::fills},
    {"fill_bytes", &device::cache::Counters::fill_bytes},
    {"evictions", &device::cache::Counters::evictions},
    {"write_backs", &device::cache::Counters::write_backs},
    {"write_back_bytes", &device::cache::Counters::write_back_bytes},
    {"waits", &device::cache::Counters::waits},
    {"readahead_issued", &device::cache::Counters::readahead_issued},
    {"readahead_used", &device::cache::Counters::readahead_used},
    {"readahead_wasted", &device::cache::Counters::readahead_wasted},
}};

// What `later` counts more than `earlier`.
RuntimeStatistics difference(const RuntimeStatistics& later, const RuntimeStatistics& earlier);

// Absent: the kernel does not tell.
struct StorageCounters {
  // /proc/self/io: what this process made the storage read, and what it dirtied or wrote directly.
  std::optional<std::uint64_t> process_read_bytes;
  std::optional<std::uint64_t> process_write_bytes;
  // /sys/dev/block: what the file system's block device did, for anybody.
  std::optional<std::uint64_t> device_read_bytes;
  std::optional<std::uint64_t> device_write_bytes;
  // Its system calls that read or wrote, on whatever descriptor.
  std::optional<std::uint64_t> read_calls;
  std::optional<std::uint64_t> write_calls;
  // What came by this process's TCP connections: of a URI's file all that its client was sent.
  std::optional<std::uint64_t> network_read_bytes;

  // What was counted since `earlier`.
  StorageCounters operator-(const StorageCounters& earlier) const;
};

enum class Network : std::uint8_t { not_counted, counted };

// `device_folder` of block_device_folder(), or empty. Costs about 50 microseconds, and two for each
// open descriptor where the network is counted.
StorageCounters read_storage_counters(const std::string& device_folder,
                                      Network network = Network::not_counted);

// Nanoseconds of the steady clock.
std::uint64_t now_ns();

}  // namespace ferry::bench
