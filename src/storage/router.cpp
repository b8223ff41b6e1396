#include "storage/router.hpp"

#include <cerrno>
#include <mutex>

#include "base/cpus.hpp"
#include "storage/inbox_queue.hpp"
#include "storage/uri.hpp"
#ifdef FERRY_WITH_NFS
#include "storage/nfs.hpp"
#endif

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
    if (Storage* storage = other(scheme_of(path)); storage != nullptr) {
      return storage->describe_path(path);
    }
    Description description;
    description.name = name_of(scheme_of(path));
    description.problem =
        "Ferry was built without NFS; install the Debian package libnfs-dev and build it again";
    return description;
  }

  Storage& posix() { return *posix_; }
  // A storage that is not `posix`; null if it was not built in. Thread-safe.
  Storage* other(Scheme scheme);

 private:
  const RouterOptions options_;
  // Later the thread that asks for another storage may be bound to one CPU.
  const CpuSet cpus_ = allowed_cpus();
  const std::unique_ptr<Storage> posix_;
  std::mutex mutex_;
  std::unique_ptr<Storage> nfs_;  // guarded by it
};

Storage* Router::other([[maybe_unused]] Scheme scheme) {
#ifdef FERRY_WITH_NFS
  const std::lock_guard lock(mutex_);
  if (nfs_ == nullptr) nfs_ = std::make_unique<Nfs>(options_.nfs_library, cpus_);
  return nfs_.get();
#else
  return nullptr;
#endif
}

class RouterQueue final : public Queue {
 public:
  RouterQueue(Router& router, const QueueOptions& options)
      : router_(router), options_(options), posix_(router.posix().make_queue(options)) {}

  void submit(Operation& operation) override {
    const Scheme scheme = scheme_for(operation);
    if (operation.kind == Kind::rename && scheme_of(operation.new_path) != scheme) {
      operation.result = -EXDEV;
      refused_.push(operation);
      return;
    }
    if (scheme == Scheme::posix) {
      ++posix_under_way_;
      posix_->submit(operation);
      return;
    }
    if (other_ == nullptr) make_other();
    if (other_ != nullptr) {
      other_->submit(operation);
      return;
    }
    operation.result = -EPROTONOSUPPORT;
    refused_.push(operation);
  }

  void flush() override {
    posix_->flush();
    if (other_ != nullptr) other_->flush();
  }

  Operation* reap() override {
    // In turns: one that always has something must not keep the others waiting.
    other_first_ = !other_first_;
    if (other_first_ && other_ != nullptr) {
      if (Operation* operation = other_->reap(); operation != nullptr) return operation;
    }
    if (Operation* operation = posix_->reap(); operation != nullptr) {
      --posix_under_way_;
      return operation;
    }
    if (!other_first_ && other_ != nullptr) {
      if (Operation* operation = other_->reap(); operation != nullptr) return operation;
    }
    return refused_.pop();
  }

  // All have the same doorbell, so the wait of posix ends for the others too. But one that has
  // nothing under way need not sleep.
  void wait(std::uint32_t seen, std::chrono::nanoseconds timeout) override {
    if (!refused_.empty()) return;
    if (other_ == nullptr) {
      posix_->wait(seen, timeout);
    } else if (other_->nothing_finished()) {
      Queue& waits = posix_under_way_ > 0 ? *posix_ : *other_;
      waits.wait(seen, timeout);
    }
  }

  std::int64_t read_file(const char* path, std::span<std::byte> memory) override {
    return scheme_of(path) == Scheme::posix ? posix_->read_file(path, memory) : -ENOTSUP;
  }

  void cancel(Operation& operation) override {
    if (scheme_for(operation) == Scheme::posix) {
      posix_->cancel(operation);
    } else if (other_ != nullptr) {
      other_->cancel(operation);
    }
  }

  QueueStatistics statistics() const override {
    QueueStatistics sum = posix_->statistics();
    const std::lock_guard lock(mutex_);
    if (other_ == nullptr) return sum;
    const QueueStatistics more = other_->statistics();
    sum.inline_operations += more.inline_operations;
    sum.engine_operations += more.engine_operations;
    sum.pool_operations += more.pool_operations;
    return sum;
  }

 private:
  void make_other() {
    Storage* storage = router_.other(Scheme::nfs);
    if (storage == nullptr) return;
    // Whoever asks for the counters does so from another thread.
    const std::lock_guard lock(mutex_);
    other_.reset(static_cast<InboxQueue*>(storage->make_queue(options_).release()));
  }

  Router& router_;
  const QueueOptions options_;
  const std::unique_ptr<Queue> posix_;
  mutable std::mutex mutex_;
  std::unique_ptr<InboxQueue> other_;  // changed by the queue's thread, under the mutex
  OperationList refused_;
  std::size_t posix_under_way_ = 0;
  bool other_first_ = false;
};

std::unique_ptr<Queue> Router::make_queue(const QueueOptions& options) {
  return std::make_unique<RouterQueue>(*this, options);
}

}  // namespace

std::vector<std::string> built_in() {
  std::vector<std::string> names = {name_of(Scheme::posix)};
#ifdef FERRY_WITH_NFS
  names.emplace_back(name_of(Scheme::nfs));
#endif
  return names;
}

std::unique_ptr<Storage> make_router(const RouterOptions& options) {
  return std::make_unique<Router>(options);
}

}  // namespace ferry::storage
