// A storage's clients of Ceph clusters: one per address, replaced if the servers evict it.
#pragma once

#include <atomic>
#include <chrono>
#include <compare>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/cpus.hpp"
#include "base/forks.hpp"
#include "storage/ceph/library.hpp"
#include "storage/layout.hpp"
#include "storage/owner_process.hpp"
#include "storage/uri.hpp"

namespace ferry::storage {

// Keeps a client library with threads alive at the end of the process: exit(3) destroys the
// library's static objects while its threads use them, which crashes.
//
// Lives as long as a client whose threads may run. With any alive, a process that calls exit(), or
// returns from main(), ends before the library's objects are destroyed: the program's streams are
// flushed and the status is that of exit(), but handlers registered with atexit(3) before the
// library was loaded do not run. Thread-safe.
class ClientAtWork {
 public:
  // To be made after the library is loaded.
  ClientAtWork();
  ~ClientAtWork();
  ClientAtWork(const ClientAtWork&) = delete;
  ClientAtWork& operator=(const ClientAtWork&) = delete;

  // Records that the library may have made static objects since.
  static void more_objects();
};

// The cluster, the file system, and the user.
struct CephAddress {
  std::string configuration;  // its file; empty: the usual places and the environment
  std::string user;           // "admin" of client.admin; empty: what the configuration says
  std::string file_system;    // empty: the default one
  unsigned uid = 0;
  unsigned gid = 0;
  std::chrono::milliseconds timeout{timeout_default};

  auto operator<=>(const CephAddress&) const = default;  // NOLINT: a null pointer is seen in it
  std::string cluster() const;                           // for people, as the next
  // Why it cannot be used if reading its configuration failed with that errno.
  std::string without_configuration(int error) const;
};

class CephMount;

// How a storage leaves the library: it closes files and unmounts clients that nobody uses any more.
//
// The last reference to a file or a client may be dropped anywhere: by a call that ends before it
// begins, on the thread of the queue, in the pool's watcher or under the pool's mutex. The library
// may take for ever. So whoever drops one never calls the library, and never waits:
//
// - A worker that has a file last, in a call that the pool bounds, closes it itself.
// - Otherwise the destructor of the CephHandle puts the file into a list of its CephMount. A thread
//   closes what is in the list and ends. A client has at most one such thread, so a close that
//   hangs keeps only others of its client waiting.
// - A client that nobody has any more is unmounted by a thread of its own, after its list.
// - None of these threads is one of the pool: a close waits for no worker, also if all of them
//   hang, and takes no worker away.
// - Where no thread can be started, the next worker that begins with a call on the client tries
//   again for the list, and the next one that looks for any client for unmounting. A list that is
//   left is closed by the thread that unmounts.
// - The end of the storage waits for these threads, for as long as a call may take. Later they go
//   on alone. Without a thread, what is left then stays until the process ends.
//
// A file has its place in the list from its opening on, so that dropping it needs no memory.
struct CephLeaving {
  explicit CephLeaving(CpuSet where) : cpus(std::move(where)) {}
  // Does work() on a thread, whose end the storage awaits. work() must let go of what it has.
  // Returns false, with nothing done, if no thread can be started.
  template <class Work>
  static bool start(const std::shared_ptr<CephLeaving>& leaving, Work work) noexcept;
  // Unmounts and destroys the clients in `unused`.
  static void unmount(const std::shared_ptr<CephLeaving>& leaving) noexcept;

  const CpuSet cpus;
  std::mutex mutex;  // the last to be taken; guards what follows
  std::condition_variable changed;
  std::size_t clients = 0;      // not unmounted yet
  std::size_t threads = 0;      // that close, ask or unmount
  CephMount* unused = nullptr;  // clients that wait for such a thread
};

template <class Work>
bool CephLeaving::start(const std::shared_ptr<CephLeaving>& leaving, Work work) noexcept {
  try {
    const std::lock_guard lock(leaving->mutex);
    std::thread([leaving, work]() mutable {
      name_this_thread("ferry-closes");
      run_this_thread_on(leaving->cpus);
      work();
      const std::lock_guard at_end(leaving->mutex);
      --leaving->threads;
      leaving->changed.notify_all();
    }).detach();
    ++leaving->threads;
    return true;
  } catch (const std::exception&) {  // std::system_error, std::bad_alloc
    return false;
  }
}

// Thread-safe. Its calls block, some of them without a bound.
class CephMount {
 public:
  CephMount(std::shared_ptr<const CephLibrary> library, const CephAddress& address,
            std::shared_ptr<CephLeaving> leaving)
      : library_(std::move(library)), address_(address), leaving_(std::move(leaving)) {}
  // Blocks without a bound.
  ~CephMount();
  CephMount(const CephMount&) = delete;
  CephMount& operator=(const CephMount&) = delete;

  // The mounted file system; mounts it when it is first needed. Throws Unavailable.
  ceph::Client* get();
  // The servers have evicted this client, as a call has found: all its later calls end with
  // -ESHUTDOWN. Seeing such an answer marks it lost.
  void lose() { lost_.store(true, std::memory_order_relaxed); }
  bool lost() const { return lost_.load(std::memory_order_relaxed); }
  const CephLibrary& library() const { return *library_; }
  const CephAddress& address() const { return address_; }
  // As granted: for an open file, or a path; for a directory, the layout of new files. Returns 0 or
  // a negative errno.
  int layout_of(int number, Layout& layout);
  int layout_of(const std::string& path, Layout& layout);
  // For a directory: the layout of new files from now on. Throws std::invalid_argument.
  int set_layout(const std::string& path, const Layout& layout);
  // For people: how it is reached. Throws Unavailable.
  std::vector<std::string> facts();
  // Has the file in this list of one closed, as CephLeaving says. Does not block.
  static void close_later(const std::shared_ptr<CephMount>& mount, std::list<int>& file) noexcept;
  // Does ask(), which asks the servers something, on a thread; false: there are enough of these, or
  // none can be started. ask() must let go of what it has. Does not block.
  template <class Ask>
  static bool start_asking(const std::shared_ptr<CephMount>& mount, Ask ask) noexcept {
    if (mount->asking_.fetch_add(1, std::memory_order_relaxed) < asking_max &&
        CephLeaving::start(mount->leaving_, [mount = std::shared_ptr(mount), ask]() mutable {
          ask();
          mount->asking_.fetch_sub(1, std::memory_order_relaxed);
          mount.reset();
        }))
      return true;
    mount->asking_.fetch_sub(1, std::memory_order_relaxed);
    return false;
  }
  // Starts to close what is in the list, if nobody does. Does not block.
  static void close_dropped(const std::shared_ptr<CephMount>& mount) noexcept;

 private:
  friend struct CephLeaving;
  friend class CephMounts;
  static constexpr unsigned asking_max = 16;
  // A layout as the library reports it.
  struct CephNumbers {
    int stripe_bytes = 0;
    int stripe_count = 0;
    int object_bytes = 0;
    int pool = 0;
  };
  ceph::Client* mount();
  void close_all_dropped();
  int to_layout(const CephNumbers& found, Layout& layout);
  void check(int error, const std::string& what) const;

  const std::shared_ptr<const CephLibrary> library_;
  const CephAddress address_;
  const std::shared_ptr<CephLeaving> leaving_;
  std::atomic<bool> lost_{false};  // orders nothing: answers are handed over with a lock
  std::atomic<unsigned> asking_{0};
  std::mutex mutex_;
  ceph::Client* mounted_ = nullptr;  // guarded by it, as the next
  std::shared_ptr<const ClientAtWork> at_work_;
  std::mutex dropped_mutex_;          // no call of the library is made under it
  std::list<int> dropped_;            // files to be closed; guarded by it, as the next
  bool closing_ = false;              // a thread works on them
  CephMount* next_unused_ = nullptr;  // guarded by leaving_->mutex
};

// facts(), within the time that a call may take. Throws Unavailable.
std::vector<std::string> facts_in_time(const std::shared_ptr<CephMount>& mount);

// Also holds what their calls share. Thread-safe.
class CephMounts {
 public:
  // Maximum of evicted clients kept by open files; a client has about twenty threads, and the
  // memory of its cache. Beyond that, the next one is not replaced.
  static constexpr std::size_t lost_clients_max = 8;

  // `cpus`: for the threads that close files and unmount.
  CephMounts(std::string library, CpuSet cpus)
      : library_name_(std::move(library)),
        leaving_(std::make_shared<CephLeaving>(std::move(cpus))) {}
  // The process whose sockets the library has; others must not call it.
  static OwnerProcess& owner();
  // Closes and unmounts; what takes longer than a call may is left alone.
  ~CephMounts();
  CephMounts(const CephMounts&) = delete;
  CephMounts& operator=(const CephMounts&) = delete;

  // The client of this address. One that was found lost is replaced here, once however many found
  // it, and lives on for as long as its files are open. While `lost_clients_max` of them do, the
  // next one that is lost stays. Throws Unavailable.
  std::shared_ptr<CephMount> of(const CephAddress& address);

 private:
  static void end(const std::shared_ptr<CephLeaving>& leaving, CephMount* unused);
  std::shared_ptr<CephMount> make(const CephAddress& address) const;
  bool may_replace() const;

  const MadeHere made_here_;
  const std::string library_name_;
  const std::shared_ptr<CephLeaving> leaving_;  // shared with those that have a client
  std::mutex mutex_;                            // guards the next two
  std::shared_ptr<const CephLibrary> library_;
  std::map<CephAddress, std::shared_ptr<CephMount>> mounts_;
};

}  // namespace ferry::storage
