// The storages that Ferry reaches through a client library, loaded by the first path that names
// them. `cpus`: for their threads.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/cpus.hpp"
#include "storage/queue/bounded_pool.hpp"
#include "storage/remote_call.hpp"
#include "storage/uri.hpp"

namespace ferry::storage {

std::unique_ptr<Storage> make_nfs(std::vector<std::string> libraries, CpuSet cpus);
std::unique_ptr<Storage> make_ceph(std::string library, CpuSet cpus);
std::unique_ptr<Storage> make_pvfs2(const std::string& library, CpuSet cpus);

class RemoteStorage : public Storage {
 public:
  Description describe_path(const std::string& path) final {
    Description description = describe();
    try {
      describe_uri(path, description);
    } catch (const std::runtime_error& reason) {  // Unavailable
      description.problem = reason.what();
    } catch (const std::invalid_argument& reason) {
      description.problem = path + ": " + reason.what();
    }
    return description;
  }

 private:
  // Adds what is known of the URI's server. May throw Unavailable and std::invalid_argument.
  virtual void describe_uri(const std::string& path, Description& description) = 0;
};

// Makes a Call of each operation, which shares `shared` with the others.
template <class Call, auto address_of, class Shared>
class RemoteQueue final : public BoundedQueue {
 public:
  RemoteQueue(BoundedPool& pool, const OwnerProcess& owner, const QueueOptions& options,
              std::shared_ptr<Shared> shared)
      : BoundedQueue(pool, owner, options), shared_(std::move(shared)) {}

 private:
  std::shared_ptr<BoundedCall> make_call(Operation& operation) override {
    return std::make_shared<Call>(operation, inbox_, timeout_of(operation, address_of), shared_);
  }

  const std::shared_ptr<Shared> shared_;
};

}  // namespace ferry::storage
