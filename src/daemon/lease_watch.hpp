// The kernel's read leases: while one is held, nobody can open the file for writing or truncate it
// by name. Who tries waits until the lease is given up, at most /proc/sys/fs/lease-break-time
// (45 s), and the kernel sends a signal to the thread here, which gives it up at once.
//
// One change passes by a read lease: open with O_RDONLY | O_TRUNC. Nobody waits for the thread here
// then. An inotify event wakes it, and it gives up the lease as if it were broken.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <thread>

#include <sys/types.h>

namespace ferry::daemon {

class LeaseWatch {
 public:
  // `on_break(number)` runs on the watching thread before the lease is given up, and must be short:
  // a writer waits for it. Throws std::system_error.
  explicit LeaseWatch(std::function<void(int)> on_break);
  // All leases must have ended.
  ~LeaseWatch();
  LeaseWatch(const LeaseWatch&) = delete;
  LeaseWatch& operator=(const LeaseWatch&) = delete;

  // Takes a lease through `descriptor`, opened for reading by nobody else. 0, or an errno: EBUSY,
  // a process has the file open for writing; EOPNOTSUPP, there are no leases for it. `number` is
  // what on_break gets. Other errnos: inotify has no room for one more file.
  int take(int descriptor, int number);
  // Runs `action` if no break of the lease has begun; on_break comes after it then.
  bool while_held(int descriptor, const std::function<void()>& action);
  // Gives it up, unless a break has. Afterwards on_break does not run for it.
  void give_up(int descriptor);

 private:
  struct Lease {
    int number;
    int inotify_watch;  // two leases on one file have the same
  };
  using Leases = std::map<int, Lease>;  // by descriptor

  void start();
  void end_thread();
  void watch();
  void end_broken(int descriptor);
  void end_all_broken();
  // The following with mutex_ held.
  void end_if_broken(Leases::iterator lease);
  void end_truncated();
  void end_changed(Leases::iterator lease);
  void forget(Leases::iterator lease);
  void remove_unused(int inotify_watch);
  void end_watch(int inotify_watch);

  const std::function<void(int)> on_break_;
  std::mutex mutex_;  // held for a few system calls on leases, none of which waits
  Leases leases_;
  int inotify_;
  std::atomic<bool> stopping_{false};
  std::atomic<pid_t> thread_number_{0};
  std::thread thread_;
};

}  // namespace ferry::daemon
