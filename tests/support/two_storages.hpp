// Two storages behind one interface: paths with the prefix "failing:" are a FailingStorage's,
// others the other's, which is a local one unless the test gives another. Neither waits for the
// other.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "storage/posix/posix.hpp"
#include "storage/storage.hpp"
#include "support/failing_storage.hpp"

namespace ferry::test {

class TwoStorages final : public storage::Storage {
 public:
  static constexpr std::string_view prefix = "failing:";

  explicit TwoStorages(Random random, std::unique_ptr<storage::Storage> files =
                                          storage::make_posix(storage::Engine::automatic))
      : failing_(std::make_unique<FailingStorage>(std::move(random))), files_(std::move(files)) {}

  FailingStorage& failing() { return *failing_; }
  // The most operations that each queue has had in flight at once, of all queues together.
  std::uint64_t most_in_flight() const { return most_in_flight_; }

  std::unique_ptr<storage::Queue> make_queue(const storage::QueueOptions& options) override {
    return std::make_unique<BothQueue>(*this, failing_->make_queue(options),
                                       files_->make_queue(options));
  }
  storage::Description describe() const override { return files_->describe(); }
  storage::Description describe_path(const std::string& path) override {
    return files_->describe_path(path);
  }

 private:
  class BothQueue final : public storage::Queue {
   public:
    BothQueue(TwoStorages& storage, std::unique_ptr<storage::Queue> failing,
              std::unique_ptr<storage::Queue> files)
        : storage_(storage), failing_(std::move(failing)), files_(std::move(files)) {}
    void submit(storage::Operation& operation) override {
      if (++in_flight_ > most_in_flight_) {
        ++most_in_flight_;
        ++storage_.most_in_flight_;
      }
      if (!storage_.is_failing(operation)) return files_->submit(operation);
      if (operation.kind == storage::Kind::close) storage_.forget(operation.file);
      ++in_failing_;
      failing_->submit(operation);
    }
    void flush() override {
      failing_->flush();
      files_->flush();
    }
    storage::Operation* reap() override {
      storage::Operation* operation = in_failing_ > 0 ? failing_->reap() : nullptr;
      if (operation == nullptr) {
        operation = files_->reap();
        if (operation != nullptr) --in_flight_;
        return operation;
      }
      --in_flight_;
      --in_failing_;
      if (operation->opened != nullptr) storage_.remember(operation->opened.get());
      return operation;
    }
    // The failing storage has no threads: its delays are counted in polls. Where all of it hangs,
    // polls must not take the CPUs of others.
    void wait(std::uint32_t seen, std::chrono::nanoseconds timeout) override {
      const std::chrono::nanoseconds look{storage_.failing().all_hang ? 10'000'000 : 50'000};
      files_->wait(seen, in_failing_ > 0 ? std::min(timeout, look) : timeout);
    }
    void cancel(storage::Operation& operation) override {
      if (!storage_.is_failing(operation)) files_->cancel(operation);
    }
    storage::QueueStatistics statistics() const override { return files_->statistics(); }

   private:
    TwoStorages& storage_;
    std::unique_ptr<storage::Queue> failing_;
    std::unique_ptr<storage::Queue> files_;
    int in_failing_ = 0;
    std::uint64_t in_flight_ = 0;
    std::uint64_t most_in_flight_ = 0;
  };

  static bool names_a_path(storage::Kind kind) {
    return kind == storage::Kind::open || kind == storage::Kind::path_status ||
           kind >= storage::Kind::unlink;
  }
  bool is_failing(const storage::Operation& operation) {
    if (names_a_path(operation.kind)) return std::string_view(operation.path).starts_with(prefix);
    const std::lock_guard lock(mutex_);
    return open_.contains(operation.file);
  }
  void remember(storage::File* file) {
    const std::lock_guard lock(mutex_);
    open_.insert(file);
  }
  void forget(storage::File* file) {
    const std::lock_guard lock(mutex_);
    open_.erase(file);
  }

  const std::unique_ptr<FailingStorage> failing_;
  const std::unique_ptr<storage::Storage> files_;
  std::atomic<std::uint64_t> most_in_flight_{0};
  std::mutex mutex_;
  std::set<const storage::File*> open_;  // files of the failing storage
};

}  // namespace ferry::test
