// A storage whose operations finish when the test releases them.
#pragma once

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "base/futex.hpp"
#include "storage/storage.hpp"

namespace ferry::test {

// Every path opens. A finished read fills its buffer with `fill`; while `hold` is set, reads and
// writes (and nothing else) do not finish.
class FakeStorage final : public storage::Storage {
 public:
  struct Counts {
    std::atomic<int> opened{0};
    std::atomic<int> closed{0};  // properly
    std::atomic<int> files{0};   // objects alive
    std::atomic<int> held{0};    // operations that wait for release()
    std::atomic<int> cancels{0};
  };
  static constexpr char fill = 'R';

  std::unique_ptr<storage::Queue> make_queue(const storage::QueueOptions& options) override {
    return std::make_unique<FakeQueue>(*this, options);
  }
  storage::Description describe() const override { return {"fake", "fake", {}}; }

  void hold() { holding_ = true; }
  // Finishes everything held, and later operations immediately.
  void release() {
    holding_ = false;
    const std::lock_guard lock(mutex_);
    for (FakeQueue* queue : queues_)
      queue->ring();
  }

  Counts counts;
  bool can_cancel = false;  // before any use

 private:
  struct FakeFile final : storage::File {
    explicit FakeFile(Counts& all) : counts(all) { ++counts.files; }
    ~FakeFile() override { --counts.files; }
    Counts& counts;
  };

  class FakeQueue final : public storage::Queue {
   public:
    FakeQueue(FakeStorage& storage, const storage::QueueOptions& options)
        : storage_(storage), options_(options) {
      const std::lock_guard lock(storage_.mutex_);
      storage_.queues_.insert(this);
    }
    ~FakeQueue() override {
      const std::lock_guard lock(storage_.mutex_);
      storage_.queues_.erase(this);
    }
    void submit(storage::Operation& operation) override { submitted_.push_back(&operation); }
    void flush() override {
      for (storage::Operation* operation : submitted_) {
        const bool transfer =
            operation->kind == storage::Kind::read || operation->kind == storage::Kind::write;
        if (transfer && storage_.holding_) {
          held_.push_back(operation);
          ++storage_.counts.held;
        } else {
          finish(*operation);
        }
      }
      submitted_.clear();
    }
    storage::Operation* reap() override {
      if (!storage_.holding_) {
        for (storage::Operation* operation : held_) {
          finish(*operation);
          --storage_.counts.held;
        }
        held_.clear();
      }
      if (finished_.empty()) return nullptr;
      storage::Operation* operation = finished_.front();
      finished_.pop_front();
      return operation;
    }
    void wait(std::uint32_t seen, std::chrono::nanoseconds timeout) override {
      if (!finished_.empty() || (!held_.empty() && !storage_.holding_)) return;
      futex_wait(options_.doorbell.word, seen, static_cast<std::uint64_t>(timeout.count()));
    }
    void cancel(storage::Operation& operation) override {
      ++storage_.counts.cancels;
      if (!storage_.can_cancel || std::erase(held_, &operation) == 0) return;
      --storage_.counts.held;
      operation.result = -ECANCELED;
      finished_.push_back(&operation);
    }
    storage::QueueStatistics statistics() const override { return {}; }
    void ring() { options_.doorbell.ring(); }

   private:
    void finish(storage::Operation& operation) {
      operation.result = 0;
      switch (operation.kind) {
        case storage::Kind::open:
          operation.opened = std::make_unique<FakeFile>(storage_.counts);
          ++storage_.counts.opened;
          break;
        case storage::Kind::close:
          delete static_cast<FakeFile*>(operation.file);
          ++storage_.counts.closed;
          break;
        case storage::Kind::file_status:
        case storage::Kind::path_status:
          operation.status.size_bytes = 4711;
          break;
        case storage::Kind::read:
        case storage::Kind::write:
        case storage::Kind::append:
          for (const iovec& vector : operation.vectors) {
            if (operation.kind == storage::Kind::read) {
              std::memset(vector.iov_base, fill, vector.iov_len);
            }
            operation.result += static_cast<std::int64_t>(vector.iov_len);
          }
          break;
        default:
          break;
      }
      finished_.push_back(&operation);
    }
    FakeStorage& storage_;
    const storage::QueueOptions options_;
    std::vector<storage::Operation*> submitted_;
    std::vector<storage::Operation*> held_;
    std::deque<storage::Operation*> finished_;
  };

  std::atomic<bool> holding_{false};
  std::mutex mutex_;  // guards queues_
  std::set<FakeQueue*> queues_;
};

}  // namespace ferry::test
