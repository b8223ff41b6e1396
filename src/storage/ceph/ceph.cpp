// Storage `ceph`: files of CephFS, named ceph:/path, through libcephfs instead of the kernel.
//
// Settings after a ? in the path, joined by &: conf (the cluster's configuration file; default
// CEPH_CONF or /etc/ceph/ceph.conf), user, fs, uid, gid, timeout in seconds for each call (30).
#include "storage/ceph/call.hpp"
#include "storage/remote_storage.hpp"

namespace ferry::storage {
namespace {

constexpr unsigned threads_max = 16;

class Ceph final : public RemoteStorage {
 public:
  Ceph(std::string library, CpuSet cpus)
      : mounts_(std::make_shared<CephMounts>(std::move(library), cpus)),
        pool_(threads_max, std::move(cpus)) {}

  std::unique_ptr<Queue> make_queue(const QueueOptions& options) override {
    using CephQueue = RemoteQueue<CephCall, ceph_address_of, CephMounts>;
    return std::make_unique<CephQueue>(pool_, CephMounts::owner(), options, mounts_);
  }
  Description describe() const override {
    return Description{"ceph", "libcephfs",      {}, remote_capabilities(CephAddress{}.timeout),
                       "",     ceph_layout_rules};
  }

 private:
  void describe_uri(const std::string& path, Description& description) override {
    const CephAddress address = ceph_address_of(parse_uri(path));
    description.capabilities = remote_capabilities(address.timeout);
    CephMounts::owner().check("ceph");
    description.notes = facts_in_time(mounts_->of(address));
  }

  const std::shared_ptr<CephMounts> mounts_;
  BoundedPool pool_;
};

}  // namespace

std::unique_ptr<Storage> make_ceph(std::string library, CpuSet cpus) {
  return std::make_unique<Ceph>(std::move(library), std::move(cpus));
}

}  // namespace ferry::storage
