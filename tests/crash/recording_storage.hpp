// In-memory files behind the storage interface that keep a log of what changes them: writes,
// truncations, names and syncs, each with what had been answered when it was asked for.
//
// A seeded fault makes the log another one than Ferry's, as if Ferry had sent that: the checker has
// to find each.
#pragma once

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <deque>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>

#include "base/futex.hpp"
#include "base/sanitizer.hpp"
#include "crash/recorded.hpp"
#include "storage/storage.hpp"

namespace ferry::test {

enum class SeededFault : std::uint8_t {
  none,
  sync_before_write,     // a sync is answered before the writes before it have reached storage
  page_skipped,          // of a write-back of several pages only the first reaches storage
  write_after_truncate,  // a write-back arrives after the truncation that follows it
  stale_tail,            // a write-back writes the rest of its last page, too
  whole_sectors,         // a write-back writes zeros up to the borders of its sectors
  sync_lost,             // a sync is answered without reaching storage
  rename_in_two_steps,   // the old name goes before the new one is there
};

class RecordingStorage final : public storage::Storage {
 public:
  std::unique_ptr<storage::Queue> make_queue(const storage::QueueOptions& options) override {
    return std::make_unique<RecordingQueue>(*this, options);
  }
  storage::Description describe() const override { return {"recording", "memory", {}}; }

  // Forgets all files and the log. Nothing may be open.
  void clear() {
    const std::lock_guard lock(mutex_);
    names_.clear();
    log_.clear();
    held_.clear();
    length_ = 0;
    files_ = 0;
  }
  // A durable file, which is not in the log.
  void put(const std::string& path, std::string bytes) {
    const std::lock_guard lock(mutex_);
    make(path)->bytes = std::move(bytes);
  }
  // How much has been recorded.
  std::size_t length() const { return length_; }
  std::vector<Recorded> log() {
    const std::lock_guard lock(mutex_);
    return log_;
  }
  // What a program does that changes names without Ferry.
  void rename(const std::string& path, const std::string& new_path) {
    const std::lock_guard lock(mutex_);
    move(path, new_path);
  }
  SeededFault fault = SeededFault::none;  // set it before use

 private:
  using What = Recorded::What;

  struct Contents {
    std::size_t number;   // since clear()
    std::uint64_t inode;  // of all
    std::string bytes;
  };
  struct RecordedFile final : storage::File {
    RecordedFile(std::shared_ptr<Contents> of, int opened_with)
        : contents(std::move(of)), flags(opened_with) {}
    std::shared_ptr<Contents> contents;
    int flags;
  };

  class RecordingQueue final : public storage::Queue {
   public:
    RecordingQueue(RecordingStorage& storage, const storage::QueueOptions& options)
        : storage_(storage), options_(options) {}
    void submit(storage::Operation& operation) override {
      operation.done_bytes = static_cast<std::int64_t>(++storage_.time_);
      submitted_.push_back(&operation);
    }
    void flush() override {
      for (storage::Operation* operation : submitted_) {
        storage_.execute(*operation);
        finished_.push_back(operation);
      }
      submitted_.clear();
    }
    storage::Operation* reap() override {
      if (finished_.empty()) flush();
      if (finished_.empty()) return nullptr;
      storage::Operation* operation = finished_.front();
      finished_.pop_front();
      storage_.answered(*operation);
      return operation;
    }
    void wait(std::uint32_t seen, std::chrono::nanoseconds timeout) override {
      if (!finished_.empty() || !submitted_.empty()) return;
      futex_wait(options_.doorbell.word, seen, static_cast<std::uint64_t>(timeout.count()));
    }
    void cancel(storage::Operation&) override {}
    storage::QueueStatistics statistics() const override { return {}; }

   private:
    RecordingStorage& storage_;
    const storage::QueueOptions options_;
    std::vector<storage::Operation*> submitted_;
    std::deque<storage::Operation*> finished_;
  };

  std::shared_ptr<Contents> make(const std::string& path) {
    auto made = std::make_shared<Contents>(Contents{files_++, ++inodes_, {}});
    names_[path] = made;
    return made;
  }
  void answered(const storage::Operation& operation) {
    const std::lock_guard lock(mutex_);
    const std::uint64_t now = ++time_;
    if (operation.state > 0) log_[operation.state - 1].answered = now;
  }

  // ---- the log ---------------------------------------------------------------------------------

  void append(Recorded record) {
    log_.push_back(std::move(record));
    length_ = log_.size();
  }
  void append_held() {
    for (Recorded& record : held_) {
      record.answered = ++time_;
      append(std::move(record));
    }
    held_.clear();
  }
  // What Ferry did, or what the seeded fault makes of it.
  void note(Recorded record, storage::Operation* operation) {
    const What what = record.what;
    if (operation != nullptr) record.asked = static_cast<std::uint64_t>(operation->done_bytes);
    if (what == What::write && record.data.empty()) return;
    const bool holds_writes =
        fault == SeededFault::sync_before_write || fault == SeededFault::write_after_truncate;
    if (holds_writes && what == What::write) {
      held_.push_back(std::move(record));
      return;
    }
    const What late = fault == SeededFault::sync_before_write ? What::sync : What::truncate;
    if (what != late) append_held();
    if (fault == SeededFault::sync_lost && what == What::sync) return;
    if (what == What::write) distort(record);
    if (fault == SeededFault::rename_in_two_steps && what == What::rename) {
      append({.what = What::unlink, .file = record.file, .name = record.name});
      append({.what = What::create, .file = record.file, .name = record.new_name});
    } else {
      append(std::move(record));
      if (operation != nullptr) operation->state = static_cast<std::uint32_t>(log_.size());
    }
    append_held();
  }
  void distort(Recorded& record) const {
    constexpr std::uint64_t page = 4096;
    constexpr std::uint64_t sector = 512;
    const std::uint64_t end = record.offset + record.data.size();
    if (fault == SeededFault::page_skipped && end / page > record.offset / page)
      record.data.resize(page - record.offset % page);
    if (fault == SeededFault::stale_tail) record.data.append(page - 1 - (end - 1) % page, '\xee');
    if (fault == SeededFault::whole_sectors) {
      record.data.insert(0, record.offset % sector, '\0');
      record.offset -= record.offset % sector;
    }
  }

  // ---- the files -------------------------------------------------------------------------------

  void move(const std::string& path, const std::string& new_path) {
    const std::shared_ptr<Contents> contents = names_.at(path);
    names_.erase(path);
    names_[new_path] = contents;
    note({.what = What::rename, .file = contents->number, .name = path, .new_name = new_path},
         nullptr);
  }
  void execute(storage::Operation& operation) {
    using storage::Kind;
    const std::lock_guard lock(mutex_);
    operation.result = 0;
    operation.state = 0;
    auto* file = static_cast<RecordedFile*>(operation.file);
    switch (operation.kind) {
      case Kind::open:
        open(operation);
        break;
      case Kind::close:
        delete file;
        break;
      case Kind::file_status:
        fill(*file->contents, operation.status);
        break;
      case Kind::path_status: {
        const auto found = names_.find(operation.path);
        if (found == names_.end()) {
          operation.result = -ENOENT;
        } else {
          fill(*found->second, operation.status);
        }
        break;
      }
      case Kind::read:
        read(*file->contents, operation);
        break;
      case Kind::write:
      case Kind::append:
        write(*file, operation);
        break;
      case Kind::truncate:
        file->contents->bytes.resize(static_cast<std::size_t>(operation.offset), '\0');
        note({.what = What::truncate,
              .file = file->contents->number,
              .offset = static_cast<std::uint64_t>(operation.offset)},
             &operation);
        break;
      case Kind::sync:
      case Kind::sync_data:
        note({.what = What::sync, .file = file->contents->number}, &operation);
        break;
      case Kind::unlink: {
        const auto found = names_.find(operation.path);
        if (found == names_.end()) {
          operation.result = -ENOENT;
          break;
        }
        const std::size_t number = found->second->number;
        names_.erase(found);
        note({.what = What::unlink, .file = number, .name = operation.path}, &operation);
        break;
      }
      case Kind::rename:
        move(operation.path, operation.new_path);
        break;
      default:
        operation.result = -EOPNOTSUPP;
        break;
    }
  }
  void open(storage::Operation& operation) {
    const auto found = names_.find(operation.path);
    std::shared_ptr<Contents> contents = found != names_.end() ? found->second : nullptr;
    if (contents == nullptr && (operation.flags & O_CREAT) == 0) {
      operation.result = -ENOENT;
      return;
    }
    if (contents == nullptr) {
      contents = make(operation.path);
      note({.what = What::create, .file = contents->number, .name = operation.path}, &operation);
    }
    operation.opened = std::make_unique<RecordedFile>(std::move(contents), operation.flags);
  }
  static void fill(const Contents& contents, storage::Status& status) {
    status.size_bytes = contents.bytes.size();
    status.inode = contents.inode;
    status.device = 1;
    status.mode = S_IFREG | 0644;
  }
  static void read(const Contents& contents, storage::Operation& operation) {
    auto at = static_cast<std::size_t>(operation.offset);
    for (const iovec& vector : operation.vectors) {
      const std::size_t rest = at < contents.bytes.size() ? contents.bytes.size() - at : 0;
      const std::size_t bytes = std::min(vector.iov_len, rest);
      std::copy_n(contents.bytes.data() + at, bytes, static_cast<char*>(vector.iov_base));
      at += bytes;
      operation.result += static_cast<std::int64_t>(bytes);
    }
  }
  void write(const RecordedFile& file, storage::Operation& operation) {
    std::string& bytes = file.contents->bytes;
    if (operation.kind == storage::Kind::append || (file.flags & O_APPEND) != 0)
      operation.offset = static_cast<std::int64_t>(bytes.size());
    Recorded record{.what = What::write,
                    .file = file.contents->number,
                    .offset = static_cast<std::uint64_t>(operation.offset),
                    .durable = (file.flags & O_DSYNC) != 0};
    for (const iovec& vector : operation.vectors) {
      const UnseenReads unseen;  // like the kernel's: a page may change during its write-back
      record.data.append(static_cast<const char*>(vector.iov_base), vector.iov_len);
    }
    const std::size_t end = record.offset + record.data.size();
    if (bytes.size() < end) bytes.resize(end, '\0');
    bytes.replace(record.offset, record.data.size(), record.data);
    operation.result = static_cast<std::int64_t>(record.data.size());
    operation.value = end;
    note(std::move(record), &operation);
  }

  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Contents>, std::less<>> names_;
  std::vector<Recorded> log_;
  std::vector<Recorded> held_;  // by a seeded fault
  std::atomic<std::size_t> length_{0};
  std::atomic<std::uint64_t> time_{0};
  std::size_t files_ = 0;
  std::uint64_t inodes_ = 0;
};

}  // namespace ferry::test
