// A storage's clients of Ceph clusters: one per address, replaced if the servers evict it.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "base/forks.hpp"
#include "storage/ceph/mount.hpp"
#include "storage/owner_process.hpp"

namespace ferry::storage {

// Also holds what their calls share. Thread-safe.
class CephMounts {
 public:
  // `lost_max`: maximum of lost clients not ended yet.
  CephMounts(std::string library, std::size_t lost_max)
      : library_name_(std::move(library)), lost_max_(lost_max) {}
  // The process whose sockets the library has; others must not call it.
  static OwnerProcess& owner();
  // Unmounts; what takes longer than a call may is left alone.
  ~CephMounts();
  CephMounts(const CephMounts&) = delete;
  CephMounts& operator=(const CephMounts&) = delete;

  // The client of this address. One that was found lost is replaced here, once however many found
  // it, and lives on for as long as its files are open. While `lost_max` of them do, the next one
  // that is lost stays. Throws Unavailable.
  std::shared_ptr<CephMount> of(const CephAddress& address);
  // Appends of this process to one file take turns.
  std::mutex& turn_of(std::uint64_t inode) { return appending_[inode % appending_.size()]; }

 private:
  // Shared with the last user of a client, and with the thread that then unmounts it: that may take
  // long, and no call waits.
  struct Clients {
    std::mutex mutex;
    std::condition_variable changed;
    std::size_t living = 0;      // not unmounted yet, guarded by the mutex, as the next
    std::size_t unmounting = 0;  // of them
  };
  static void end(const std::shared_ptr<Clients>& clients, std::unique_ptr<CephMount> mount);
  std::shared_ptr<CephMount> make(const CephAddress& address) const;
  bool may_replace() const;

  const MadeHere made_here_;
  const std::string library_name_;
  const std::size_t lost_max_;
  const std::shared_ptr<Clients> clients_ = std::make_shared<Clients>();
  std::mutex mutex_;  // guards the next two
  std::shared_ptr<const CephLibrary> library_;
  std::map<CephAddress, std::shared_ptr<CephMount>> mounts_;
  std::array<std::mutex, 64> appending_;
};

}  // namespace ferry::storage
