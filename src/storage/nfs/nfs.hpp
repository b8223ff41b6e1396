// Storage `nfs`: files of NFS servers, named nfs://server/export/path, through libnfs instead of
// the kernel. The first such path loads the library.
//
// A child of fork() is refused (ECHILD): it must open its own storage.
//
// Settings after a ? in the path, joined by &: nfsport and mountport (default: ask the server's
// portmapper), uid, gid, connections (4), timeout in seconds for each request (30), version (only
// 3).
#pragma once

#include <memory>
#include <string>

#include "base/cpus.hpp"
#include "storage/queue/inbox_queue.hpp"

namespace ferry::storage {

class NfsQueue;

class Nfs final : public Storage {
 public:
  // `cpus`: for its threads.
  Nfs(std::string library, CpuSet cpus);
  ~Nfs() override;

  std::unique_ptr<Queue> make_queue(const QueueOptions& options) override;
  Description describe() const override;
  Description describe_path(const std::string& path) override;

 private:
  class Shared;
  friend class NfsQueue;
  std::unique_ptr<Shared> shared_;
};

}  // namespace ferry::storage
