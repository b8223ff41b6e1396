// ferryd: one page cache for all processes of a user on this machine.
//
// Three threads. The *front* answers clients and closes files whose leases were broken. The
// *filler* brings in the pages that clients' hints name. The lease watch (lease_watch.hpp) ends
// leases, and waits for neither. Clients never wait for any of them, except for an answer to what
// they offer.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

#include <ferry/runtime.hpp>

#include "daemon/alive_word.hpp"
#include "daemon/client_processes.hpp"
#include "daemon/listening_socket.hpp"
#include "daemon/messages.hpp"
#include "daemon/served_files.hpp"

namespace ferry::daemon {

struct DaemonOptions {
  std::string socket;
  std::uint64_t cache_bytes = std::uint64_t{256} << 20;
  std::chrono::seconds idle{0};  // ends after that long without a client; 0: never
  // A file that was offered makes no room for another for that long.
  std::chrono::milliseconds least_stay{1000};
};

class Daemon {
 public:
  // Throws ferry::Error. Clients can connect from here on.
  explicit Daemon(const DaemonOptions& options);
  ~Daemon();
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  // Until stop(), a client's request to stop, or the idle time; or until the socket has lost its
  // name, by which alone clients find it.
  void serve();
  // On any thread, and in signal handlers.
  void stop();

 private:
  bool server_has_ended() const;
  void front(Calls& calls);
  void fill(Calls& calls);
  void answer_one(Calls& calls);
  void answer(Calls& calls, const DaemonRequest& request, int descriptor, pid_t process,
              DaemonAnswer& reply);
  void bring_in(Calls& calls, const PageHint& hint);
  bool wait_for_hints();
  DaemonStatus status() const;
  SharedMemory describe_memory() const;

  const DaemonOptions options_;
  ListeningSocket socket_;
  Runtime runtime_;
  Buffer table_memory_;
  SharedTable& table_;
  const device::cache::View& cache_;
  const std::uint32_t first_group_;
  AliveWord alive_;
  ServedFiles files_;
  ClientProcesses clients_;
  int wake_ = -1;  // an eventfd
  std::atomic<bool> stopping_{false};
};

}  // namespace ferry::daemon
