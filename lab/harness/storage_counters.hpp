// The kernel's counters of storage transfers: evidence for cold and hot reads beyond the state of
// the page cache.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace ferry::bench {

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

}  // namespace ferry::bench
