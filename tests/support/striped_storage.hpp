// Local files behind a storage that appears to stripe them, granting CephFS's layouts.
#pragma once

#include <cerrno>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>

#include <unistd.h>

#include "storage/posix/posix.hpp"
#include "storage/storage.hpp"

namespace ferry::test {

class StripedStorage final : public storage::Storage {
 public:
  // `defaults`: for files without a request. Stripes of 0 bytes: not striped. `servers` above 0:
  // their number; the first may be chosen, as with Lustre.
  explicit StripedStorage(storage::Layout defaults, int servers = 0)
      : defaults_(std::move(defaults)), servers_(servers) {}
  // Of a file that was made here.
  storage::Layout granted(const std::string& path) {
    const std::lock_guard lock(mutex_);
    return granted_.at(path);
  }

  std::unique_ptr<storage::Queue> make_queue(const storage::QueueOptions& options) override {
    return std::make_unique<StripedQueue>(*this, files_->make_queue(options));
  }
  storage::Description describe() const override { return files_->describe(); }

 private:
  class StripedQueue final : public storage::Queue {
   public:
    StripedQueue(StripedStorage& storage, std::unique_ptr<storage::Queue> files)
        : storage_(storage), files_(std::move(files)) {}
    void submit(storage::Operation& operation) override {
      if (operation.kind == storage::Kind::path_layout) {
        storage_.tell(operation);
        answered_ = &operation;
        return;
      }
      if (operation.kind == storage::Kind::open && operation.layout != nullptr) {
        if (!storage_.grant(operation)) {
          answered_ = &operation;
          return;
        }
        operation.layout = nullptr;
      }
      files_->submit(operation);
    }
    void flush() override { files_->flush(); }
    storage::Operation* reap() override {
      if (answered_ != nullptr) return std::exchange(answered_, nullptr);
      return files_->reap();
    }
    void wait(std::uint32_t seen, std::chrono::nanoseconds timeout) override {
      if (answered_ == nullptr) files_->wait(seen, timeout);
    }
    void cancel(storage::Operation& operation) override { files_->cancel(operation); }
    storage::QueueStatistics statistics() const override { return files_->statistics(); }

   private:
    StripedStorage& storage_;
    std::unique_ptr<storage::Queue> files_;
    storage::Operation* answered_ = nullptr;  // here, and not by the files
  };

  // Whether the file may be made.
  bool grant(storage::Operation& operation) {
    const std::lock_guard lock(mutex_);
    if (defaults_.stripe_bytes == 0) {
      operation.result = -EOPNOTSUPP;
      return false;
    }
    if (::access(operation.path, F_OK) == 0) {
      operation.result = -EEXIST;
      return false;
    }
    try {
      storage::Layout layout = storage::fitted_to_ceph(*operation.layout);
      const int first = operation.layout->first_server;
      if (servers_ > 0 && first >= servers_) throw std::invalid_argument("there is no such server");
      if (servers_ > 0) layout.first_server = first;
      if (layout.stripe_bytes == 0) layout.stripe_bytes = defaults_.stripe_bytes;
      if (layout.stripe_count == 0) layout.stripe_count = defaults_.stripe_count;
      granted_[operation.path] = layout;
      return true;
    } catch (const std::invalid_argument&) {
      operation.result = -EINVAL;
      return false;
    }
  }
  void tell(storage::Operation& operation) {
    const std::lock_guard lock(mutex_);
    const auto found = granted_.find(operation.path);
    *operation.layout = found != granted_.end() ? found->second : defaults_;
    operation.result = defaults_.stripe_bytes == 0 ? -EOPNOTSUPP : 0;
  }

  const storage::Layout defaults_;
  const int servers_;
  const std::unique_ptr<storage::Storage> files_ = storage::make_posix(StorageEngine::automatic);
  std::mutex mutex_;
  std::map<std::string, storage::Layout> granted_;  // by path
};

}  // namespace ferry::test
