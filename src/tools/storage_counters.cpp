#include "tools/storage_counters.hpp"

#include <fstream>

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

}  // namespace

StorageCounters StorageCounters::operator-(const StorageCounters& earlier) const {
  return {difference(process_read_bytes, earlier.process_read_bytes),
          difference(process_write_bytes, earlier.process_write_bytes),
          difference(device_read_bytes, earlier.device_read_bytes),
          difference(device_write_bytes, earlier.device_write_bytes)};
}

StorageCounters read_storage_counters(const std::string& device_folder) {
  StorageCounters counters;
  read_process(counters);
  if (!device_folder.empty()) read_device(device_folder, counters);
  return counters;
}

}  // namespace ferry::bench
