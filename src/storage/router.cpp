#include "storage/router.hpp"

#include <array>
#include <cerrno>
#include <mutex>
#include <new>

#include "base/cpus.hpp"
#include "storage/ceph/library.hpp"
#include "storage/nfs/library.hpp"
#include "storage/owner_process.hpp"
#include "storage/pvfs2/library.hpp"
#include "storage/queue/inbox_queue.hpp"
#include "storage/remote_storage.hpp"
#include "storage/uri.hpp"

namespace ferry::storage {
namespace {

Scheme scheme_for(const Operation& operation) {
  return operation.file != nullptr ? operation.file->scheme() : scheme_of(operation.path);
}

class Router final : public Storage {
 public:
  explicit Router(RouterOptions options)
      : options_(std::move(options)), posix_(make_posix(options_.engine)) {}

  std::unique_ptr<Queue> make_queue(const QueueOptions& options) override;
  Description describe() const override { return posix_->describe(); }
  Description describe_path(const std::string& path) override {
    if (scheme_of(path) == Scheme::posix) return posix_->describe_path(path);
    return other(scheme_of(path)).describe_path(path);
  }

  Storage& posix() { return *posix_; }
  // A storage that is not `posix`. Thread-safe.
  Storage& other(Scheme scheme);

 private:
  const RouterOptions options_;
  // Later, the thread that first uses another storage may be bound to one CPU.
  const CpuSet cpus_ = allowed_cpus();
  const std::unique_ptr<Storage> posix_;
  std::mutex mutex_;
  std::array<std::unique_ptr<Storage>, schemes> others_;  // guarded by it
};

Storage& Router::other(Scheme scheme) {
  const std::lock_guard lock(mutex_);
  std::unique_ptr<Storage>& found = others_[static_cast<std::size_t>(scheme)];
  if (found != nullptr) return *found;
  if (scheme == Scheme::nfs) found = make_nfs(options_.nfs_libraries, cpus_);
  if (scheme == Scheme::ceph) found = make_ceph(options_.ceph_library, cpus_);
  if (scheme == Scheme::pvfs2) found = make_pvfs2(options_.pvfs2_library, cpus_);
  return *found;
}

class RouterQueue final : public Queue {
 public:
  RouterQueue(Router& router, const QueueOptions& options)
      : router_(router), options_(options), posix_(router.posix().make_queue(options)) {}

  void submit(Operation& operation) override {
    const Scheme scheme = scheme_for(operation);
    if (has_new_path(operation.kind) && scheme_of(operation.new_path) != scheme) {
      operation.result = -EXDEV;
      finished_.push(operation);
      return;
    }
    if (scheme == Scheme::posix) {
      ++posix_under_way_;
      posix_->submit(operation);
      return;
    }
    try {
      queue_for(scheme).submit(operation);
    } catch (const std::bad_alloc&) {                            // before it has the operation
      if (operation.kind == Kind::close) delete operation.file;  // it is taken in any case
      operation.result = -ENOMEM;
      finished_.push(operation);
    }
  }

  void flush() override {
    posix_->flush();
    for (const auto& other : others_)
      if (other != nullptr) other->flush();
  }

  Operation* reap() override {
    if (Operation* operation = finished_.pop(); operation != nullptr) return operation;
    // In turns: one that always has something must not keep the others waiting.
    for (std::size_t i = 0; i < schemes; ++i) {
      turn_ = (turn_ + 1) % schemes;
      if (turn_ == 0) {
        if (Operation* operation = posix_->reap(); operation != nullptr) {
          --posix_under_way_;
          return operation;
        }
      } else if (others_[turn_] != nullptr) {
        if (Operation* operation = others_[turn_]->reap(); operation != nullptr) return operation;
      }
    }
    return nullptr;
  }

  // All have the same doorbell, so one's wait ends for the others too. But one with nothing in
  // flight need not sleep.
  void wait(std::uint32_t seen, std::chrono::nanoseconds timeout) override {
    Queue* sleeps = posix_.get();
    for (const auto& other : others_) {
      if (other == nullptr) continue;
      while (Operation* operation = other->reap())
        finished_.push(*operation);
      if (posix_under_way_ == 0) sleeps = other.get();
    }
    if (finished_.empty()) sleeps->wait(seen, timeout);
  }

  std::int64_t read_file(const char* path, std::span<std::byte> memory) override {
    return scheme_of(path) == Scheme::posix ? posix_->read_file(path, memory) : -ENOTSUP;
  }

  void cancel(Operation& operation) override {
    const Scheme scheme = scheme_for(operation);
    if (scheme == Scheme::posix) {
      posix_->cancel(operation);
    } else if (Queue* other = others_[static_cast<std::size_t>(scheme)].get(); other != nullptr) {
      other->cancel(operation);
    }
  }

  QueueStatistics statistics() const override {
    QueueStatistics sum = posix_->statistics();
    const std::lock_guard lock(mutex_);
    for (const auto& other : others_) {
      if (other == nullptr) continue;
      const QueueStatistics more = other->statistics();
      sum.inline_operations += more.inline_operations;
      sum.engine_operations += more.engine_operations;
      sum.pool_operations += more.pool_operations;
    }
    return sum;
  }

 private:
  Queue& queue_for(Scheme scheme) {
    std::unique_ptr<Queue>& queue = others_[static_cast<std::size_t>(scheme)];
    if (queue != nullptr) return *queue;
    std::unique_ptr<Queue> made = router_.other(scheme).make_queue(options_);
    // Other threads read the counters.
    const std::lock_guard lock(mutex_);
    queue = std::move(made);
    return *queue;
  }

  Router& router_;
  const QueueOptions options_;
  const std::unique_ptr<Queue> posix_;
  mutable std::mutex mutex_;
  // By scheme; changed by the queue's thread, under the mutex.
  std::array<std::unique_ptr<Queue>, schemes> others_;
  OperationList finished_;  // refused, or found by wait()
  std::size_t posix_under_way_ = 0;
  std::size_t turn_ = 0;
};

std::unique_ptr<Queue> Router::make_queue(const QueueOptions& options) {
  return std::make_unique<RouterQueue>(*this, options);
}

template <class Library>
ClientLibrary load(Scheme scheme, const auto& file_names, const std::string& named) {
  ClientLibrary found{name_of(scheme), named, ""};
  try {
    found.file_name = Library(file_names).file_name();
  } catch (const Unavailable& reason) {
    found.problem = reason.what();
  }
  return found;
}

}  // namespace

std::vector<std::string> built_in() {
  std::vector<std::string> names;
  for (const Scheme scheme : {Scheme::posix, Scheme::nfs, Scheme::ceph, Scheme::pvfs2}) {
    names.emplace_back(name_of(scheme));
  }
  return names;
}

std::vector<ClientLibrary> client_libraries(const RouterOptions& options) {
  return {load<NfsLibrary>(Scheme::nfs, options.nfs_libraries, one_of(options.nfs_libraries)),
          load<CephLibrary>(Scheme::ceph, options.ceph_library, options.ceph_library),
          load<Pvfs2Library>(Scheme::pvfs2, options.pvfs2_library, options.pvfs2_library)};
}

std::unique_ptr<Storage> make_router(const RouterOptions& options) {
  return std::make_unique<Router>(options);
}

std::string reason_of(Storage& storage, int error_number, const std::string& path) {
  // The errnos that say little, and after which asking again takes no time.
  const bool is_explained = error_number == OwnerProcess::refused || error_number == EINVAL ||
                            error_number == ECONNREFUSED;
  if (!is_explained || path.find(':') == std::string::npos) return "";
  std::string why = storage.describe_path(path).problem;
  if (const std::string named = path + ": "; why.starts_with(named)) why.erase(0, named.size());
  return why;
}

}  // namespace ferry::storage
