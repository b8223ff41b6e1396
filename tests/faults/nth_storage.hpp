// A storage around another one, of which the n-th operation fails, in one of four ways.
#pragma once

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "faults/nth_point.hpp"
#include "storage/posix/file.hpp"
#include "storage/posix/posix.hpp"
#include "storage/storage.hpp"

namespace ferry::test {

enum class FaultMode : std::uint8_t {
  refused,    // fails, and is not carried out
  done,       // fails, and is carried out
  shortened,  // moves half of its bytes, as after an error in the middle; others are refused
  // A change is answered with -ETIMEDOUT and carried out a few operations later. Until then changes
  // and syncs fail like that, as storage/late_changes.hpp demands. Others, and changes of servers'
  // files, are carried out and fail.
  late,
};

inline constexpr FaultMode fault_modes[] = {FaultMode::refused, FaultMode::done,
                                            FaultMode::shortened, FaultMode::late};
inline const char* name_of(FaultMode mode) {
  constexpr const char* names[] = {"refused", "done", "shortened", "late"};
  return names[static_cast<std::size_t>(mode)];
}

inline constexpr int fault_errors[] = {EIO, ENOSPC, EDQUOT, ESTALE, EINTR, ETIMEDOUT};

class NthStorage final : public storage::Storage {
 public:
  explicit NthStorage(StorageEngine engine) : NthStorage(storage::make_posix(engine)) {}
  explicit NthStorage(std::unique_ptr<storage::Storage> inner) : inner_(std::move(inner)) {}

  std::unique_ptr<storage::Queue> make_queue(const storage::QueueOptions& options) override {
    return std::make_unique<NthQueue>(*this, inner_->make_queue(options));
  }
  storage::Description describe() const override { return inner_->describe(); }
  storage::Description describe_path(const std::string& path) override {
    return inner_->describe_path(path);
  }

  NthPoint point;
  // Set these before arming the point.
  std::atomic<FaultMode> mode = FaultMode::refused;
  std::atomic<int> error = EIO;
  // What the strike hit; after it.
  std::atomic<storage::Kind> struck_kind{storage::Kind::open};

 private:
  using Kind = storage::Kind;

  // A change that was answered, and is carried out later.
  struct LateChange {
    storage::Operation operation;
    std::vector<std::byte> data;
    iovec vector{};
    unsigned turns = 4;
  };

  class NthQueue final : public storage::Queue {
   public:
    NthQueue(NthStorage& storage, std::unique_ptr<storage::Queue> inner)
        : storage_(storage), inner_(std::move(inner)) {}

    void submit(storage::Operation& operation) override {
      if (storage_.refuses(operation)) return answer(operation, -ETIMEDOUT);
      if (!storage_.point.strikes()) return inner_->submit(operation);
      storage_.struck_kind = operation.kind;
      const int failure = -storage_.error;
      switch (operation.kind == Kind::close ? FaultMode::done : storage_.mode.load()) {
        case FaultMode::shortened:
          if (halve(operation)) return inner_->submit(operation);
          [[fallthrough]];
        case FaultMode::refused:
          return answer(operation, failure);
        case FaultMode::late:
          if (is_change(operation.kind) && operation.file->scheme() == storage::Scheme::posix) {
            storage_.carry_out_later(operation);
            return answer(operation, -ETIMEDOUT);
          }
          [[fallthrough]];
        case FaultMode::done:
          failing_[&operation] = failure;
          return inner_->submit(operation);
      }
    }
    void flush() override { inner_->flush(); }
    storage::Operation* reap() override {
      if (!answered_.empty()) {
        storage::Operation* operation = answered_.front();
        answered_.pop_front();
        return operation;
      }
      storage::Operation* operation = inner_->reap();
      if (operation == nullptr || failing_.empty()) return operation;
      const auto failing = failing_.find(operation);
      if (failing == failing_.end()) return operation;
      const int failure = failing->second;
      failing_.erase(failing);
      // A server's file takes a close to go away.
      const storage::File* opened = operation->opened.get();
      if (opened != nullptr && opened->scheme() != storage::Scheme::posix) return operation;
      operation->opened.reset();
      operation->result = failure;
      return operation;
    }
    void wait(std::uint32_t seen, std::chrono::nanoseconds timeout) override {
      if (answered_.empty()) inner_->wait(seen, timeout);
    }
    void cancel(storage::Operation& operation) override {
      for (const storage::Operation* answered : answered_)
        if (answered == &operation) return;
      inner_->cancel(operation);
    }
    storage::QueueStatistics statistics() const override { return inner_->statistics(); }
    std::int64_t read_file(const char* path, std::span<std::byte> memory) override {
      if (!storage_.point.strikes()) return inner_->read_file(path, memory);
      storage_.struck_kind = Kind::read;
      return -storage_.error;
    }

   private:
    void answer(storage::Operation& operation, int result) {
      operation.result = result;
      answered_.push_back(&operation);
    }
    // Returns false if there is nothing to halve.
    static bool halve(storage::Operation& operation) {
      const bool moves = operation.kind == Kind::read || operation.kind == Kind::write ||
                         operation.kind == Kind::append;
      std::size_t left = 0;
      for (const iovec& vector : operation.vectors)
        left += vector.iov_len;
      if (!moves || left < 2) return false;
      left /= 2;
      std::size_t used = 0;
      for (iovec& vector : operation.vectors) {
        if (left == 0) break;
        vector.iov_len = std::min(vector.iov_len, left);
        left -= vector.iov_len;
        ++used;
      }
      operation.vectors = operation.vectors.first(used);
      return true;
    }

    NthStorage& storage_;
    std::unique_ptr<storage::Queue> inner_;
    std::deque<storage::Operation*> answered_;
    std::map<const storage::Operation*, int> failing_;
  };

  static bool is_change(Kind kind) {
    return kind == Kind::write || kind == Kind::append || kind == Kind::truncate;
  }

  void carry_out_later(const storage::Operation& operation) {
    const std::lock_guard lock(mutex_);
    LateChange& late = late_.emplace(LateChange{});
    for (const iovec& vector : operation.vectors) {
      const auto* begin = static_cast<const std::byte*>(vector.iov_base);
      late.data.insert(late.data.end(), begin, begin + vector.iov_len);
    }
    late.vector = {late.data.data(), late.data.size()};
    late.operation.kind = operation.kind;
    late.operation.file = operation.file;
    late.operation.offset = operation.offset;
    late.operation.vectors = {&late.vector, 1};
    has_late_ = true;
  }
  // Whether a change that is still to come forbids this one. Carries it out when its time has come.
  bool refuses(const storage::Operation& operation) {
    if (!has_late_) return false;
    const std::lock_guard lock(mutex_);
    if (!late_) return false;
    const bool must_land = operation.kind == Kind::close || operation.kind == Kind::open;
    if (must_land || late_->turns-- == 0) {
      storage::execute_blocking(late_->operation);
      late_.reset();
      has_late_ = false;
      return false;
    }
    return is_change(operation.kind) || operation.kind == Kind::sync ||
           operation.kind == Kind::sync_data;
  }

  std::unique_ptr<storage::Storage> inner_;
  std::atomic<bool> has_late_{false};
  std::mutex mutex_;
  std::optional<LateChange> late_;
};

}  // namespace ferry::test
