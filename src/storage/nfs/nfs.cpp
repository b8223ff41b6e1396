// Storage `nfs`: files of NFS servers, named nfs://server/export/path, through libnfs instead of
// the kernel. The first such path loads the library.
//
// A child of fork() is refused (ECHILD): it must open its own storage.
//
// Settings after a ? in the path, joined by &: nfsport and mountport (default: ask the server's
// portmapper), uid, gid, connections (4), timeout in seconds for each request (30), version (only
// 3).
#include <algorithm>
#include <cerrno>
#include <climits>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "base/caught_error.hpp"
#include "base/forks.hpp"
#include "storage/nfs/server.hpp"
#include "storage/remote_storage.hpp"

namespace ferry::storage {
namespace {

constexpr unsigned workers_max = 16;
constexpr unsigned connections_max = 64;

NfsAddress address_of(const Uri& uri) {
  uri.allow_only("connections gid mountport nfsport timeout uid version");
  if (uri.number("version", 3, 0, 99) != 3) {
    throw Unavailable(EPROTONOSUPPORT,
                      "libnfs 4.0 cannot write over NFS version 4; leave \"version\" away and let "
                      "the server offer version 3");
  }
  NfsAddress address;
  address.host = uri.host;
  address.nfs_port = uri.number("nfsport", uri.port, 1, 65535);
  address.mount_port = uri.number("mountport", 0, 1, 65535);
  address.user = uri.uid();
  address.group = uri.gid();
  address.connections = uri.number("connections", address.connections, 1, connections_max);
  address.timeout = uri.timeout();
  return address;
}

Capabilities capabilities_of(const NfsAddress& address) {
  Capabilities capabilities;
  capabilities.atomic_append = false;
  capabilities.open_after_unlink = false;
  capabilities.special_files = false;
  capabilities.page_cache_of_host = false;
  capabilities.request_timeout = address.timeout;
  return capabilities;
}

class NfsShared {
 public:
  NfsShared(std::vector<std::string> libraries, CpuSet cpus)
      : library_names_(std::move(libraries)), cpus_(std::move(cpus)) {}

  // Not in a child of fork(): its parent's threads, which it has not, use the connections, and
  // nothing that it sent on them would be understood.
  bool made_here() const { return static_cast<bool>(made_here_); }

  // Both throw Unavailable, and std::invalid_argument for a URI that is none.
  std::shared_ptr<NfsServer> server_of(NfsAddress address) {
    address.cpus = cpus_;
    const std::lock_guard lock(mutex_);
    if (library_ == nullptr) library_ = std::make_shared<const NfsLibrary>(library_names_);
    std::shared_ptr<NfsServer>& server = servers_[address];
    if (server == nullptr) server = std::make_shared<NfsServer>(library_, address);
    return server;
  }

  void execute(Operation& operation) {
    if (operation.layout != nullptr) {
      operation.result = -EOPNOTSUPP;
      return;
    }
    try {
      if (operation.file != nullptr) {
        static_cast<NfsFile*>(operation.file)->server->execute(operation, "", "");
        return;
      }
      const Uri uri = parse_uri(operation.path);
      if (uri.path.size() >= PATH_MAX) throw Unavailable(ENAMETOOLONG, "the path is too long");
      const std::shared_ptr<NfsServer> server = server_of(address_of(uri));
      std::string new_path;
      if (has_new_path(operation.kind)) {
        const Uri target = parse_uri(operation.new_path);
        if (server_of(address_of(target)) != server) throw Unavailable(EXDEV, "another server");
        new_path = target.path;
      }
      server->execute(operation, uri.path, new_path);
    } catch (const Unavailable& reason) {
      operation.result = -reason.error_number();
    } catch (const std::invalid_argument&) {
      operation.result = -EINVAL;
    } catch (...) {
      operation.result = -caught_error();
    }
  }

 private:
  const MadeHere made_here_;
  const std::vector<std::string> library_names_;
  const CpuSet cpus_;
  std::mutex mutex_;  // guards the next two
  std::shared_ptr<const NfsLibrary> library_;
  std::map<NfsAddress, std::shared_ptr<NfsServer>> servers_;

 public:
  WorkerPool pool{workers_max, [this](Operation& operation) { execute(operation); }, cpus_};
};

// Transfers and syncs go to the connections' threads, everything else to the workers.
class NfsQueue final : public InboxQueue {
 public:
  NfsQueue(NfsShared& shared, const QueueOptions& options) : InboxQueue(options), shared_(shared) {}

  ~NfsQueue() override {
    if (!shared_.made_here()) return;  // who has its operations is not in this process
    take_back(shared_.pool.withdraw_all(inbox_));
    for (const auto& [operation, transfer] : transfers_)
      end_early(*transfer);
    await_others();
  }

  Operation* reap() override {
    Operation* operation = InboxQueue::reap();
    if (operation != nullptr && !transfers_.empty()) transfers_.erase(operation);
    return operation;
  }

  void cancel(Operation& operation) override {
    if (operation.kind == Kind::close || !shared_.made_here()) return;
    if (shared_.pool.withdraw(operation)) {
      take_back(1);
      operation.result = -ECANCELED;
      finish(operation);
      return;
    }
    if (const auto found = transfers_.find(&operation); found != transfers_.end()) {
      end_early(*found->second);
    }
  }

 private:
  static void end_early(NfsTransfer& transfer) {
    transfer.cancel();
    transfer.file().server->look_again();
  }

  void start(Operation& operation) override {
    try {
      begin(operation);
    } catch (const std::bad_alloc&) {
      finish_now(operation, -ENOMEM);
    }
  }

  // Throws before another thread has the operation.
  void begin(Operation& operation) {
    if (!shared_.made_here()) {
      finish_now(operation, operation.kind == Kind::close ? 0 : -ECHILD);
      return;
    }
    auto* file = static_cast<NfsFile*>(operation.file);
    if (file != nullptr && operation.kind != Kind::close) {
      if (const int error = file->refusal(operation); error != 0) {
        finish_now(operation, error);
        return;
      }
    }
    switch (operation.kind) {
      case Kind::close: {
        const std::unique_ptr<NfsFile> owned(file);
        finish_now(operation, owned->writes->error());
        return;
      }
      case Kind::read:
      case Kind::write:
      case Kind::append:
        if (operation.kind == Kind::append || (operation.kind == Kind::write && file->append)) {
          break;
        }
        transfer(operation);
        return;
      case Kind::sync:
      case Kind::sync_data:
        if (file->directory) {
          finish_now(operation, 0);  // servers make changes of names durable immediately
        } else {
          transfer(operation);
        }
        return;
      default:
        break;
    }
    shared_.pool.execute(operation, inbox_, place_of(operation));
    count_pool_operation();
    give_away();
  }

  // A server that does not answer keeps workers from its own calls only.
  static Place place_of(const Operation& operation) {
    if (const auto* file = static_cast<const NfsFile*>(operation.file); file != nullptr)
      return place_of(file->server->address());
    try {
      return place_of(address_of(parse_uri(operation.path)));
    } catch (const std::exception&) {  // said when it is executed
      return 0;
    }
  }
  static Place place_of(const NfsAddress& address) {
    return std::hash<std::string>()(address.host + ':' + std::to_string(address.nfs_port));
  }

  void transfer(Operation& operation) {
    auto started = std::make_shared<NfsTransfer>(operation, inbox_);
    if (started->pieces().empty()) {
      finish_now(operation, 0);
      return;
    }
    transfers_.emplace(&operation, started);
    started->file().server->start(started);
    count_engine_operation();
    give_away();
  }

  void finish_now(Operation& operation, std::int64_t result) {
    operation.result = result;
    count_inline_operation();
    finish(operation);
  }

  NfsShared& shared_;
  std::unordered_map<Operation*, std::shared_ptr<NfsTransfer>> transfers_;  // in flight
};

class Nfs final : public RemoteStorage {
 public:
  Nfs(std::vector<std::string> libraries, CpuSet cpus)
      : shared_(std::make_unique<NfsShared>(std::move(libraries), std::move(cpus))) {}
  // In a child all of it is left alone: closing its connections would need their threads.
  ~Nfs() override {
    if (!shared_->made_here()) static_cast<void>(shared_.release());
  }

  std::unique_ptr<Queue> make_queue(const QueueOptions& options) override {
    return std::make_unique<NfsQueue>(*shared_, options);
  }
  Description describe() const override {
    return Description{"nfs", "libnfs", {}, capabilities_of(NfsAddress{}), ""};
  }

 private:
  void describe_uri(const std::string& path, Description& description) override {
    if (!shared_->made_here()) {
      throw Unavailable(ECHILD,
                        "this process was forked from the one that uses the NFS servers; open them "
                        "anew, or start processes by \"spawn\"");
    }
    const Uri uri = parse_uri(path);
    const NfsAddress address = address_of(uri);
    description.capabilities = capabilities_of(address);
    description.notes = shared_->server_of(address)->facts(uri.path);
  }

  std::unique_ptr<NfsShared> shared_;
};

}  // namespace

std::unique_ptr<Storage> make_nfs(std::vector<std::string> libraries, CpuSet cpus) {
  return std::make_unique<Nfs>(std::move(libraries), std::move(cpus));
}

}  // namespace ferry::storage
