// One client of a Ceph file system, shared by all requests of one user.
#pragma once

#include <atomic>
#include <chrono>
#include <compare>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "storage/ceph/client_at_work.hpp"
#include "storage/ceph/library.hpp"
#include "storage/layout.hpp"

namespace ferry::storage {

// The cluster, the file system, and the user.
struct CephAddress {
  std::string configuration;  // its file; empty: the usual places and the environment
  std::string user;           // "admin" of client.admin; empty: what the configuration says
  std::string file_system;    // empty: the default one
  unsigned uid = 0;
  unsigned gid = 0;
  std::chrono::milliseconds timeout{30'000};

  auto operator<=>(const CephAddress&) const = default;  // NOLINT: a null pointer is seen in it
  std::string cluster() const;                           // for people
};

// Thread-safe. Its calls block, some of them without a bound.
class CephMount {
 public:
  CephMount(std::shared_ptr<const CephLibrary> library, const CephAddress& address)
      : library_(std::move(library)), address_(address) {}
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

 private:
  // A layout as the library reports it.
  struct CephNumbers {
    int stripe_bytes = 0;
    int stripe_count = 0;
    int object_bytes = 0;
    int pool = 0;
  };
  ceph::Client* mount();
  int to_layout(const CephNumbers& found, Layout& layout);
  void check(int error, const std::string& what) const;

  const std::shared_ptr<const CephLibrary> library_;
  const CephAddress address_;
  std::atomic<bool> lost_{false};  // orders nothing: answers are handed over with a lock
  std::mutex mutex_;
  ceph::Client* mounted_ = nullptr;  // guarded by it, as the next
  std::unique_ptr<const ClientAtWork> at_work_;
};

// facts(), within the time that a call may take. Throws Unavailable.
std::vector<std::string> facts_in_time(const std::shared_ptr<CephMount>& mount);

}  // namespace ferry::storage
