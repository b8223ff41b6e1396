// In-memory files behind the storage interface, with random errors, short transfers and delays.
#pragma once

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>

#include "base/futex.hpp"
#include "base/sanitizer.hpp"
#include "storage/storage.hpp"
#include "support/depth.hpp"

namespace ferry::test {

class FailingStorage final : public storage::Storage {
 public:
  explicit FailingStorage(Random random) : random_(std::move(random)) {}

  // One in this many; 0: never.
  struct Faults {
    std::atomic<unsigned> reads{0};
    std::atomic<unsigned> writes{0};
    std::atomic<unsigned> short_reads{0};
    std::atomic<unsigned> short_writes{0};
    std::atomic<unsigned> syncs{0};
    std::atomic<unsigned> delays{0};
    std::atomic<int> error{EIO};
    std::atomic<int> sync_error{0};  // 0: the same
    std::atomic<bool> closes_hang{false};
    void stop() {
      closes_hang = false;
      for (auto* one : {&reads, &writes, &short_reads, &short_writes, &syncs, &delays})
        *one = 0;
    }
  };
  Faults faults;
  // While set, nothing executes.
  std::atomic<bool> all_hang{false};
  std::atomic<std::uint64_t> injected{0};
  // Only writes to this file fail; empty: to all.
  void fail_writes_to(const std::string& path) {
    const std::lock_guard lock(mutex_);
    failing_ = path.empty() ? nullptr : find(path);
  }
  std::atomic<std::uint64_t> failed_writes{0};
  // Writes by handles with O_DSYNC or O_SYNC, and appends.
  std::atomic<std::uint64_t> synchronous_writes{0};
  std::atomic<std::uint64_t> appends{0};
  // File::late_change() of every file.
  std::atomic<int> late_change{0};
  // Status::device of a file; default 1.
  void put_on_device(const std::string& path, std::uint64_t device) {
    const std::lock_guard lock(mutex_);
    find(path)->device = device;
  }
  // From now on, transfers and syncs of this file wait, until let_go().
  void hang(const std::string& path) {
    const std::lock_guard lock(mutex_);
    hung_ = find(path)->number;
  }
  void let_go() {
    const std::lock_guard lock(mutex_);
    hung_ = 0;
    only_reads_hang_ = false;
    reads_let_go_ = 0;
  }
  // The same, for reads only.
  void hang_reads(const std::string& path) {
    const std::lock_guard lock(mutex_);
    hung_ = find(path)->number;
    only_reads_hang_ = true;
  }
  // Executes one of them: the hanging one, or the next.
  void let_a_read_go() {
    const std::lock_guard lock(mutex_);
    ++reads_let_go_;
  }
  std::atomic<std::uint64_t> reads{0};   // arrived, for any file
  std::atomic<std::uint64_t> writes{0};  // the same
  std::atomic<std::size_t> held{0};      // how many wait; for one queue
  // Status::version of every file.
  std::atomic<std::uint64_t> version{0};
  // Writes that announced a sync, and those that did not.
  std::atomic<std::uint64_t> writes_for_sync{0};
  std::atomic<std::uint64_t> other_writes{0};
  std::atomic<int> descriptor{-1};            // of every file
  std::atomic<std::uint64_t> truncations{0};  // by opens, too

  std::unique_ptr<storage::Queue> make_queue(const storage::QueueOptions& options) override {
    return std::make_unique<MemoryQueue>(*this, options);
  }
  storage::Description describe() const override { return {"failing", "memory", {}, capabilities}; }
  storage::Capabilities capabilities = {};
  // Carries out an operation in the place of this storage, if it returns true.
  std::function<bool(storage::Operation&)> instead;
  // Called at the end of each wait of a queue, on its thread. Set it before first use.
  std::function<void()> after_wait;

  std::string contents(const std::string& path, std::size_t offset = 0,
                       std::size_t bytes = std::string::npos) {
    const std::lock_guard lock(mutex_);
    const std::string& all = files_.at(path)->bytes;
    return offset < all.size() ? all.substr(offset, bytes) : "";
  }
  void set_contents(const std::string& path, std::string bytes) {
    const std::lock_guard lock(mutex_);
    find(path)->bytes = std::move(bytes);
  }
  // An existing file loses the new name.
  void rename(const std::string& path, const std::string& new_path) {
    const std::lock_guard lock(mutex_);
    move(path, new_path);
  }

 private:
  struct Data {
    std::uint64_t number = 0;
    std::string bytes;
    std::uint64_t device = 1;
  };
  struct MemoryFile final : storage::File {
    MemoryFile(std::shared_ptr<Data> of, int opened_with, const FailingStorage& where)
        : data(std::move(of)), flags(opened_with), storage(where) {}
    int descriptor() const override { return storage.descriptor; }
    int late_change() const override { return storage.late_change; }
    std::shared_ptr<Data> data;
    int flags;
    const FailingStorage& storage;
  };

  class MemoryQueue final : public storage::Queue {
   public:
    MemoryQueue(FailingStorage& storage, const storage::QueueOptions& options)
        : storage_(storage), options_(options) {}
    void submit(storage::Operation& operation) override {
      if (operation.kind == storage::Kind::read) ++storage_.reads;
      if (operation.kind == storage::Kind::write) ++storage_.writes;
      submitted_.push_back(&operation);
    }
    void flush() override {
      for (storage::Operation* operation : submitted_)
        waiting_.emplace_back(operation, storage_.turns_to_wait());
      submitted_.clear();
      if (storage_.all_hang) return;
      std::size_t hanging = 0;
      for (auto& [operation, turns] : waiting_) {
        if (storage_.hangs(*operation)) {
          ++hanging;
          continue;
        }
        if (turns-- > 0) continue;
        storage_.execute(*operation);
        finished_.push_back(operation);
      }
      std::erase_if(waiting_, [](const auto& one) { return one.second < 0; });
      storage_.held = hanging;
    }
    storage::Operation* reap() override {
      if (finished_.empty()) flush();
      if (finished_.empty()) return nullptr;
      storage::Operation* operation = finished_.front();
      finished_.pop_front();
      return operation;
    }
    void wait(std::uint32_t seen, std::chrono::nanoseconds timeout) override {
      if (!finished_.empty() || waiting_.size() > storage_.held) return;
      // No bell rings when hanging ones are released.
      const std::chrono::nanoseconds nap = std::chrono::milliseconds(1);
      if (!waiting_.empty()) timeout = std::min(timeout, nap);
      futex_wait(options_.doorbell.word, seen, static_cast<std::uint64_t>(timeout.count()));
      if (storage_.after_wait) storage_.after_wait();
    }
    void cancel(storage::Operation&) override {}
    storage::QueueStatistics statistics() const override { return {}; }

   private:
    FailingStorage& storage_;
    const storage::QueueOptions options_;
    std::vector<storage::Operation*> submitted_;
    std::vector<std::pair<storage::Operation*, int>> waiting_;
    std::deque<storage::Operation*> finished_;
  };

  int turns_to_wait() {
    const std::lock_guard lock(mutex_);
    return happens(faults.delays) ? static_cast<int>(random_.below(30)) : 0;
  }
  bool hangs(const storage::Operation& operation) {
    if (operation.kind == storage::Kind::close) return faults.closes_hang;
    using storage::Kind;
    const std::lock_guard lock(mutex_);
    const bool is_read = operation.kind == Kind::read;
    const bool waits =
        is_read ||
        (!only_reads_hang_ && (operation.kind == Kind::write || operation.kind == Kind::append ||
                               operation.kind == Kind::sync || operation.kind == Kind::sync_data));
    if (!waits || hung_ == 0 ||
        static_cast<const MemoryFile*>(operation.file)->data->number != hung_)
      return false;
    if (!is_read || reads_let_go_ == 0) return true;
    --reads_let_go_;
    return false;
  }
  bool happens(const std::atomic<unsigned>& one_in) {
    return one_in != 0 && random_.one_in(one_in);
  }
  std::shared_ptr<Data>& find(const std::string& path) {
    std::shared_ptr<Data>& data = files_[path];
    if (data == nullptr) data = std::make_shared<Data>(Data{++files_made_, {}});
    return data;
  }
  void move(const std::string& path, const std::string& new_path) {
    const std::shared_ptr<Data> data = find(path);
    files_.erase(path);
    files_[new_path] = data;
  }

  void execute(storage::Operation& operation) {
    using storage::Kind;
    const std::lock_guard lock(mutex_);
    operation.result = 0;
    auto* file = static_cast<MemoryFile*>(operation.file);
    if (instead && instead(operation)) return;
    switch (operation.kind) {
      case Kind::open:
        if ((operation.flags & O_TRUNC) != 0) {
          ++truncations;
          find(operation.path)->bytes.clear();
        }
        operation.opened =
            std::make_unique<MemoryFile>(find(operation.path), operation.flags, *this);
        break;
      case Kind::close:
        delete file;
        break;
      case Kind::file_status:
        fill(*file->data, operation.status);
        break;
      case Kind::path_status:
        fill(*find(operation.path), operation.status);
        break;
      case Kind::read:
        operation.result = may(*file, O_WRONLY) ? fault(faults.reads) : -EBADF;
        if (operation.result == 0) transfer(*file->data, operation, true, faults.short_reads);
        break;
      case Kind::write:
        ++(operation.sync_follows ? writes_for_sync : other_writes);
        write(*file, operation);
        break;
      case Kind::append:
        write(*file, operation);
        operation.value = file->data->bytes.size();
        break;
      case Kind::truncate:
        if (!may(*file, O_RDONLY)) {
          operation.result = -EINVAL;
          break;
        }
        ++truncations;
        file->data->bytes.resize(static_cast<std::size_t>(operation.offset), '\0');
        break;
      case Kind::sync:
      case Kind::sync_data:
        operation.result = fault(faults.syncs);
        if (operation.result != 0 && faults.sync_error != 0) operation.result = -faults.sync_error;
        break;
      case Kind::unlink:
        files_.erase(operation.path);
        break;
      case Kind::rename:
        move(operation.path, operation.new_path);
        break;
      case Kind::path_layout:
      case Kind::set_layout:
      case Kind::make_directory:  // it has no directories
      case Kind::remove_directory:
      case Kind::list_directory:
      case Kind::set_attributes:
      case Kind::read_link:
      case Kind::make_link:
      case Kind::add_name:
        operation.result = -EOPNOTSUPP;
        break;
    }
  }
  // Whether it was opened for more than `only`.
  static bool may(const MemoryFile& file, int only) { return (file.flags & O_ACCMODE) != only; }
  // Like the kernel: with O_APPEND every write goes to the end.
  void write(const MemoryFile& file, storage::Operation& operation) {
    if (!may(file, O_RDONLY)) {
      operation.result = -EBADF;
      return;
    }
    if (operation.kind == storage::Kind::append || (file.flags & O_APPEND) != 0) {
      ++appends;
      operation.offset = static_cast<std::int64_t>(file.data->bytes.size());
    }
    if ((file.flags & O_DSYNC) != 0) ++synchronous_writes;
    if (failing_ == nullptr || failing_ == file.data) operation.result = fault(faults.writes);
    if (operation.result == 0) {
      transfer(*file.data, operation, false, faults.short_writes);
    } else {
      ++failed_writes;
    }
  }
  void fill(const Data& data, storage::Status& status) const {
    status.version = version;
    status.size_bytes = data.bytes.size();
    status.inode = data.number;
    status.device = data.device;
    status.mode = S_IFREG | 0644;
  }
  std::int64_t fault(const std::atomic<unsigned>& one_in) {
    if (!happens(one_in)) return 0;
    ++injected;
    return -faults.error;
  }
  void transfer(Data& data, storage::Operation& operation, bool reading,
                const std::atomic<unsigned>& shorts) {
    std::size_t left = 0;
    for (const iovec& vector : operation.vectors)
      left += vector.iov_len;
    if (left > 1 && happens(shorts)) {
      ++injected;
      left = random_.between(1, left - 1);
    }
    auto at = static_cast<std::size_t>(operation.offset);
    for (const iovec& vector : operation.vectors) {
      std::size_t bytes = std::min(vector.iov_len, left);
      if (reading) {
        bytes = at < data.bytes.size() ? std::min(bytes, data.bytes.size() - at) : 0;
        std::copy_n(data.bytes.data() + at, bytes, static_cast<char*>(vector.iov_base));
      } else {
        if (data.bytes.size() < at + bytes) data.bytes.resize(at + bytes, '\0');
        const UnseenReads unseen;  // like the kernel's: a page may change during its write-back
        std::copy_n(static_cast<const char*>(vector.iov_base), bytes, data.bytes.data() + at);
      }
      operation.result += static_cast<std::int64_t>(bytes);
      at += bytes;
      left -= bytes;
    }
  }

  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Data>> files_;
  std::shared_ptr<Data> failing_;
  std::uint64_t hung_ = 0;  // the number of the file
  bool only_reads_hang_ = false;
  unsigned reads_let_go_ = 0;  // of those that hang
  std::uint64_t files_made_ = 0;
  Random random_;
};

}  // namespace ferry::test
