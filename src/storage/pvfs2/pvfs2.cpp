#include "storage/pvfs2/pvfs2.hpp"

#include <cerrno>
#include <stdexcept>
#include <utility>

#include "storage/in_time.hpp"
#include "storage/pvfs2/call.hpp"
#include "storage/queue/bounded_queue.hpp"
#include "storage/uri.hpp"

namespace ferry::storage {
namespace {

// The library works on one call at a time; further threads answer calls behind a hanging one in
// time.
constexpr unsigned threads_max = 4;

Capabilities capabilities_of(const Pvfs2Address& address) {
  Capabilities capabilities = remote_capabilities(address.timeout);
  capabilities.open_after_unlink = false;
  capabilities.full_status = false;
  capabilities.rights_at_open = false;
  return capabilities;
}

class Pvfs2Queue final : public BoundedQueue {
 public:
  Pvfs2Queue(std::shared_ptr<Pvfs2Shared> shared, BoundedPool& pool, const QueueOptions& options)
      : BoundedQueue(pool, Pvfs2Client::owner(), options), shared_(std::move(shared)) {}

 private:
  std::shared_ptr<BoundedCall> make_call(Operation& operation) override {
    return std::make_shared<Pvfs2Call>(operation, inbox_, timeout_of(operation, pvfs2_address_of),
                                       shared_);
  }

  const std::shared_ptr<Pvfs2Shared> shared_;
};

}  // namespace

Pvfs2::Pvfs2(const std::string& library, CpuSet cpus)
    : shared_(std::make_shared<Pvfs2Shared>(library)),
      pool_(std::make_unique<BoundedPool>(threads_max, std::move(cpus))) {}
Pvfs2::~Pvfs2() = default;

std::unique_ptr<Queue> Pvfs2::make_queue(const QueueOptions& options) {
  return std::make_unique<Pvfs2Queue>(shared_, *pool_, options);
}

Description Pvfs2::describe() const {
  return Description{"pvfs2", "libpvfs2",        {}, capabilities_of(Pvfs2Address{}),
                     "",      pvfs2_layout_rules};
}

Description Pvfs2::describe_path(const std::string& path) {
  Description description = describe();
  try {
    const Uri uri = parse_uri(path);
    const Pvfs2Address address = pvfs2_address_of(uri);
    description.capabilities = capabilities_of(address);
    Pvfs2Client::owner().check("pvfs2");
    const auto place = in_time(address.timeout, [shared = shared_, address, name = uri.path] {
      return shared->client.place_of(address, name);
    });
    if (!place) {
      throw Unavailable(ETIMEDOUT, path + ": the PVFS2 servers do not answer; see that they run");
    }
    description.notes = {"PVFS2 file system " + place->source};
  } catch (const std::runtime_error& reason) {  // Unavailable
    description.problem = reason.what();
  } catch (const std::invalid_argument& reason) {
    description.problem = path + ": " + reason.what();
  }
  return description;
}

}  // namespace ferry::storage
