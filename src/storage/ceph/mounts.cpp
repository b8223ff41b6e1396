#include "storage/ceph/mounts.hpp"

#include <algorithm>
#include <chrono>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

namespace ferry::storage {

OwnerProcess& CephMounts::owner() {
  static constinit OwnerProcess process;
  return process;
}

CephMounts::~CephMounts() {
  if (!made_here_) {  // the clients are the parent's, and speak on its sockets
    static_cast<void>(new (std::nothrow) decltype(mounts_)(std::move(mounts_)));
    return;
  }
  std::chrono::milliseconds timeout{0};
  for (const auto& [address, mount] : mounts_)
    timeout = std::max(timeout, address.timeout);
  mounts_.clear();
  // Not for those that a file or a late call still has: it may never let go.
  std::unique_lock lock(clients_->mutex);
  clients_->changed.wait_for(lock, timeout, [this] { return clients_->unmounting == 0; });
}

std::shared_ptr<CephMount> CephMounts::of(const CephAddress& address) {
  std::shared_ptr<CephMount> replaced;  // let go of after the lock
  const std::lock_guard lock(mutex_);
  if (library_ == nullptr) library_ = std::make_shared<const CephLibrary>(library_name_);
  owner().claim();
  std::shared_ptr<CephMount>& mount = mounts_[address];
  if (mount == nullptr || (mount->lost() && may_replace())) {
    replaced = std::exchange(mount, make(address));
  }
  return mount;
}

bool CephMounts::may_replace() const {
  const std::lock_guard lock(clients_->mutex);
  return clients_->living < mounts_.size() + lost_max_;
}

std::shared_ptr<CephMount> CephMounts::make(const CephAddress& address) const {
  auto mount = std::make_unique<CephMount>(library_, address);
  {
    const std::lock_guard lock(clients_->mutex);
    ++clients_->living;
  }
  return {mount.release(), [clients = clients_](CephMount* unused) {
            end(clients, std::unique_ptr<CephMount>(unused));
          }};
}

void CephMounts::end(const std::shared_ptr<Clients>& clients, std::unique_ptr<CephMount> mount) {
  if (owner().is_ancestor()) {
    static_cast<void>(mount.release());  // the parent's
    return;
  }
  {
    const std::lock_guard lock(clients->mutex);
    ++clients->unmounting;
  }
  const auto unmount = [clients, raw = mount.release()] {
    delete raw;
    const std::lock_guard lock(clients->mutex);
    --clients->living;
    --clients->unmounting;
    clients->changed.notify_all();
  };
  try {
    std::thread(unmount).detach();
  } catch (const std::system_error&) {
    unmount();  // better late than never
  }
}

}  // namespace ferry::storage
