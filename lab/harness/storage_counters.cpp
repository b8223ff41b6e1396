#include "harness/storage_counters.hpp"

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <system_error>

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace ferry::bench {
namespace {

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

}  // namespace ferry::bench
