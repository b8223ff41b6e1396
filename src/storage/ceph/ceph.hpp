// Storage `ceph`: files of CephFS, named ceph:/path, through libcephfs instead of the kernel. The
// first such path loads the library.
//
// Settings after a ? in the path, joined by &: conf (the cluster's configuration file; default
// CEPH_CONF or /etc/ceph/ceph.conf), user, fs, uid, gid, timeout in seconds for each call (30).
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "base/cpus.hpp"
#include "storage/queue/inbox_queue.hpp"

namespace ferry::storage {

class Ceph final : public Storage {
 public:
  // `cpus`: for its threads.
  Ceph(std::string library, CpuSet cpus);
  ~Ceph() override;

  std::unique_ptr<Queue> make_queue(const QueueOptions& options) override;
  Description describe() const override;
  Description describe_path(const std::string& path) override;

  // Maximum of evicted clients kept by open files; a client has about twenty threads, and the
  // memory of its cache. Beyond that, the next one is not replaced.
  static constexpr std::size_t lost_clients_max = 8;

  class Shared;

 private:
  const std::shared_ptr<Shared> shared_;
};

}  // namespace ferry::storage
