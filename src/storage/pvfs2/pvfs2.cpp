// Storage `pvfs2`: files of PVFS2 and OrangeFS, named pvfs2:/mount/path, through libpvfs2's system
// interface instead of the kernel.
//
// A table like that of mount(8) lists the mount: the file of tab=, PVFS2TAB_FILE, /etc/fstab or
// /etc/pvfs2tab. It need not be mounted. Settings after a ? in the path, joined by &: tab, uid,
// gid, timeout in seconds for each call (30).
#include <cerrno>

#include "storage/in_time.hpp"
#include "storage/pvfs2/call.hpp"
#include "storage/remote_storage.hpp"

namespace ferry::storage {
namespace {

// The library works on one call at a time; further threads answer calls behind a hanging one in
// time.
constexpr unsigned threads_max = 4;

Capabilities capabilities_of(const Pvfs2Address& address) {
  Capabilities capabilities = remote_capabilities(address.timeout);
  capabilities.open_after_unlink = false;
  capabilities.full_status = false;
  capabilities.sets_attributes = false;
  capabilities.makes_links = false;
  capabilities.rights_at_open = false;
  return capabilities;
}

class Pvfs2 final : public RemoteStorage {
 public:
  Pvfs2(const std::string& library, CpuSet cpus)
      : shared_(std::make_shared<Pvfs2Shared>(library)), pool_(threads_max, std::move(cpus)) {}

  std::unique_ptr<Queue> make_queue(const QueueOptions& options) override {
    using Pvfs2Queue = RemoteQueue<Pvfs2Call, pvfs2_address_of, Pvfs2Shared>;
    return std::make_unique<Pvfs2Queue>(pool_, Pvfs2Client::owner(), options, shared_);
  }
  Description describe() const override {
    return Description{"pvfs2", "libpvfs2",        {}, capabilities_of(Pvfs2Address{}),
                       "",      pvfs2_layout_rules};
  }

 private:
  void describe_uri(const std::string& path, Description& description) override {
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
  }

  const std::shared_ptr<Pvfs2Shared> shared_;
  BoundedPool pool_;
};

}  // namespace

std::unique_ptr<Storage> make_pvfs2(const std::string& library, CpuSet cpus) {
  return std::make_unique<Pvfs2>(library, std::move(cpus));
}

}  // namespace ferry::storage
