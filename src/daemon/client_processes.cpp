#include "daemon/client_processes.hpp"

#include <algorithm>
#include <cerrno>
#include <new>

#include <sys/syscall.h>
#include <unistd.h>

namespace ferry::daemon {

ClientProcesses::ClientProcesses(SharedTable& table, const device::cache::View& cache,
                                 std::uint32_t first_group)
    : table_(table), cache_(cache), first_group_(first_group) {
  for (std::uint32_t reader = readers_max; reader > 0; --reader)
    free_.push_back(reader - 1);
}

ClientProcesses::~ClientProcesses() {
  for (const auto& [pid, process] : processes_)
    close(process.descriptor);
}

int ClientProcesses::attach(pid_t process) {
  if (const auto found = processes_.find(process); found != processes_.end()) {
    free_readers(found->second);
    return 0;
  }
  // It waits for an answer, so this number is its.
  const auto descriptor = static_cast<int>(syscall(SYS_pidfd_open, process, 0));
  if (descriptor < 0) return errno;
  try {
    processes_[process].descriptor = descriptor;
  } catch (const std::bad_alloc&) {
    close(descriptor);
    throw;
  }
  return 0;
}

std::uint32_t ClientProcesses::take_readers(pid_t process, std::uint32_t* readers,
                                            std::uint32_t count) {
  const auto found = processes_.find(process);
  if (found == processes_.end()) return 0;
  found->second.readers.reserve(found->second.readers.size() + count);
  std::uint32_t taken = 0;
  for (; taken < count && !free_.empty(); ++taken) {
    readers[taken] = free_.back();
    free_.pop_back();
    found->second.readers.push_back(readers[taken]);
  }
  return taken;
}

void ClientProcesses::watched(std::vector<pollfd>& list) const {
  for (const auto& [pid, process] : processes_)
    list.push_back({process.descriptor, POLLIN, 0});
}

void ClientProcesses::ended(int watched_descriptor) {
  const auto found = std::find_if(processes_.begin(), processes_.end(), [&](const auto& one) {
    return one.second.descriptor == watched_descriptor;
  });
  if (found == processes_.end()) return;
  free_readers(found->second);
  close(watched_descriptor);
  processes_.erase(found);
}

// Its threads are gone, and with them all that could read through their marks.
void ClientProcesses::free_readers(Process& process) {
  for (const std::uint32_t reader : process.readers) {
    device::DeviceRef<std::uint32_t>(cache_.mark(first_group_ + reader).frame)
        .store(0, device::release);
    table_.hinted[reader / SharedTable::word_bits].fetch_and(
        ~(std::uint64_t{1} << reader % SharedTable::word_bits));
    free_.push_back(reader);
  }
  process.readers.clear();
}

}  // namespace ferry::daemon
