#include "storage/ceph/ceph.hpp"

#include <memory>
#include <stdexcept>
#include <utility>

#include "storage/ceph/call.hpp"
#include "storage/queue/bounded_queue.hpp"
#include "storage/uri.hpp"

namespace ferry::storage {
namespace {

constexpr unsigned threads_max = 16;

}  // namespace

class Ceph::Shared {
 public:
  Shared(std::string library, CpuSet cpus)
      : mounts(std::make_shared<CephMounts>(std::move(library), lost_clients_max)),
        pool(threads_max, std::move(cpus)) {}

  const std::shared_ptr<CephMounts> mounts;
  BoundedPool pool;
};

namespace {

class CephQueue final : public BoundedQueue {
 public:
  CephQueue(Ceph::Shared& shared, const QueueOptions& options)
      : BoundedQueue(shared.pool, CephMounts::owner(), options), shared_(shared) {}

 private:
  std::shared_ptr<BoundedCall> make_call(Operation& operation) override {
    return std::make_shared<CephCall>(operation, inbox_, timeout_of(operation, ceph_address_of),
                                      shared_.mounts);
  }

  Ceph::Shared& shared_;
};

}  // namespace

Ceph::Ceph(std::string library, CpuSet cpus)
    : shared_(std::make_shared<Shared>(std::move(library), std::move(cpus))) {}
Ceph::~Ceph() = default;

std::unique_ptr<Queue> Ceph::make_queue(const QueueOptions& options) {
  return std::make_unique<CephQueue>(*shared_, options);
}

Description Ceph::describe() const {
  return Description{"ceph", "libcephfs",      {}, remote_capabilities(CephAddress{}.timeout),
                     "",     ceph_layout_rules};
}

Description Ceph::describe_path(const std::string& path) {
  Description description = describe();
  try {
    const CephAddress address = ceph_address_of(parse_uri(path));
    description.capabilities = remote_capabilities(address.timeout);
    CephMounts::owner().check("ceph");
    description.notes = facts_in_time(shared_->mounts->of(address));
  } catch (const std::runtime_error& reason) {  // Unavailable
    description.problem = reason.what();
  } catch (const std::invalid_argument& reason) {
    description.problem = path + ": " + reason.what();
  }
  return description;
}

}  // namespace ferry::storage
