// The processes that ferryd serves, and the readers' places that they have. The kernel tells when
// one ends, however it does; its places are free then.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include <poll.h>
#include <sys/types.h>

#include "daemon/shared_table.hpp"

namespace ferry::daemon {

class ClientProcesses {
 public:
  ClientProcesses(SharedTable& table, const device::cache::View& cache, std::uint32_t first_group);
  ~ClientProcesses();
  ClientProcesses(const ClientProcesses&) = delete;
  ClientProcesses& operator=(const ClientProcesses&) = delete;

  // A process that begins anew: what an earlier program in it had is free. 0 or an errno.
  int attach(pid_t process);
  // Up to `count` readers' places for a process that is attached; returns how many.
  std::uint32_t take_readers(pid_t process, std::uint32_t* readers, std::uint32_t count);

  // For poll(): one for each process, readable when it has ended.
  void watched(std::vector<pollfd>& list) const;
  void ended(int watched_descriptor);
  std::uint64_t count() const { return processes_.size(); }

 private:
  struct Process {
    int descriptor = -1;  // a pidfd
    std::vector<std::uint32_t> readers;
  };
  void free_readers(Process& process);

  SharedTable& table_;
  const device::cache::View& cache_;
  const std::uint32_t first_group_;
  std::map<pid_t, Process> processes_;
  std::vector<std::uint32_t> free_;
};

}  // namespace ferry::daemon
