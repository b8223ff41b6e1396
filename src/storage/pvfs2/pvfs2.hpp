// Storage `pvfs2`: files of PVFS2 and OrangeFS, named pvfs2:/mount/path, through libpvfs2's system
// interface instead of the kernel. The first such path loads the library.
//
// A table like that of mount(8) lists the mount: the file of tab=, PVFS2TAB_FILE, /etc/fstab or
// /etc/pvfs2tab. It need not be mounted. Settings after a ? in the path, joined by &: tab, uid,
// gid, timeout in seconds for each call (30).
#pragma once

#include <memory>
#include <string>

#include "base/cpus.hpp"
#include "storage/queue/inbox_queue.hpp"

namespace ferry::storage {

struct Pvfs2Shared;
class BoundedPool;

class Pvfs2 final : public Storage {
 public:
  // `cpus`: for its threads.
  Pvfs2(const std::string& library, CpuSet cpus);
  ~Pvfs2() override;

  std::unique_ptr<Queue> make_queue(const QueueOptions& options) override;
  Description describe() const override;
  Description describe_path(const std::string& path) override;

 private:
  const std::shared_ptr<Pvfs2Shared> shared_;
  const std::unique_ptr<BoundedPool> pool_;
};

}  // namespace ferry::storage
