#include "storage/ceph.hpp"

#include <cerrno>
#include <memory>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "storage/ceph_call.hpp"
#include "storage/uri.hpp"

namespace ferry::storage {
namespace {

constexpr unsigned threads_max = 16;

Capabilities capabilities_of(const CephAddress& address) {
  Capabilities capabilities;
  capabilities.atomic_append = false;
  capabilities.special_files = false;
  capabilities.page_cache_of_host = false;
  capabilities.tells_holes = false;
  capabilities.layouts = true;
  capabilities.request_timeout = address.timeout;
  return capabilities;
}

// How long this operation may take. For a path that is none it does not matter.
std::chrono::milliseconds timeout_of(const Operation& operation) {
  if (operation.file != nullptr) {
    return static_cast<const CephFile*>(operation.file)->handle->mount().address().timeout;
  }
  try {
    return ceph_address_of(parse_uri(operation.path)).timeout;
  } catch (const std::invalid_argument&) {
    return CephAddress{}.timeout;
  }
}

}  // namespace

class Ceph::Shared {
 public:
  Shared(std::string library, CpuSet cpus)
      : mounts(std::make_shared<CephMounts>(std::move(library))),
        pool(threads_max, std::move(cpus)) {}

  const std::shared_ptr<CephMounts> mounts;
  BoundedPool pool;
};

namespace {

class CephQueue final : public InboxQueue {
 public:
  CephQueue(Ceph::Shared& shared, const QueueOptions& options)
      : InboxQueue(options), shared_(shared) {}

  ~CephQueue() override {
    for (const auto& [operation, call] : calls_)
      call->end_early(-ECANCELED);
    await_others();
  }

  Operation* reap() override {
    Operation* operation = InboxQueue::reap();
    if (operation != nullptr) calls_.erase(operation);
    return operation;
  }

  void cancel(Operation& operation) override {
    if (operation.kind == Kind::close) return;
    if (const auto found = calls_.find(&operation); found != calls_.end()) {
      found->second->end_early(-ECANCELED);
    }
  }

 private:
  void start(Operation& operation) override {
    const bool transfers = operation.kind == Kind::read || operation.kind == Kind::write ||
                           operation.kind == Kind::append;
    if (transfers) {
      if (const int error = static_cast<CephFile*>(operation.file)->refusal(operation);
          error != 0) {
        operation.result = error;
        count_inline_operation();
        finish(operation);
        return;
      }
    }
    auto call =
        std::make_shared<CephCall>(operation, inbox_, timeout_of(operation), shared_.mounts);
    calls_.emplace(&operation, call);
    count_pool_operation();
    give_away();
    shared_.pool.execute(call);
  }

  Ceph::Shared& shared_;
  std::unordered_map<Operation*, std::shared_ptr<CephCall>> calls_;  // under way
};

}  // namespace

Ceph::Ceph(std::string library, CpuSet cpus)
    : shared_(std::make_shared<Shared>(std::move(library), std::move(cpus))) {}
Ceph::~Ceph() = default;

std::unique_ptr<Queue> Ceph::make_queue(const QueueOptions& options) {
  return std::make_unique<CephQueue>(*shared_, options);
}

Description Ceph::describe() const {
  return Description{"ceph", "libcephfs",      {}, capabilities_of(CephAddress{}),
                     "",     ceph_layout_rules};
}

Description Ceph::describe_path(const std::string& path) {
  Description description = describe();
  try {
    const CephAddress address = ceph_address_of(parse_uri(path));
    description.capabilities = capabilities_of(address);
    description.notes = facts_in_time(shared_->mounts->of(address));
  } catch (const std::runtime_error& reason) {  // Unavailable
    description.problem = reason.what();
  } catch (const std::invalid_argument& reason) {
    description.problem = path + ": " + reason.what();
  }
  return description;
}

}  // namespace ferry::storage
