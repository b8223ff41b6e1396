#include "storage/nfs/writes.hpp"

#include <cerrno>
#include <cstring>
#include <list>
#include <unordered_map>
#include <utility>

#include "base/forks.hpp"

namespace ferry::storage {
namespace {

// Records of closed files.
constexpr std::size_t kept_max = 65536;

class Records {
 public:
  std::shared_ptr<NfsWrites> open(const std::string& file) {
    const std::lock_guard lock(mutex_);
    Entry& entry = entries_[file];
    if (entry.writes == nullptr) {
      entry.name.assign(1, file);
      entry.writes = std::make_shared<NfsWrites>();
    } else if (entry.openings == 0) {
      entry.name.splice(entry.name.end(), kept_, entry.kept);
    }
    ++entry.openings;
    return entry.writes;
  }

  void close(const std::string& file) {
    const std::lock_guard lock(mutex_);
    const auto found = entries_.find(file);
    if (found == entries_.end() || --found->second.openings > 0) return;
    if (found->second.writes->is_settled()) {
      entries_.erase(found);
      return;
    }
    std::list<std::string>& name = found->second.name;
    found->second.kept = name.begin();
    kept_.splice(kept_.end(), name);  // without memory
    if (kept_.size() <= kept_max) return;
    entries_.erase(kept_.front());
    kept_.pop_front();
  }

 private:
  struct Entry {
    std::shared_ptr<NfsWrites> writes;
    unsigned openings = 0;
    std::list<std::string> name;            // while it is open: one
    std::list<std::string>::iterator kept;  // if it is closed
  };
  std::mutex mutex_;
  std::unordered_map<std::string, Entry> entries_;
  std::list<std::string> kept_;  // in the order of their last close
};

}  // namespace

void NfsWrites::acknowledged(const char* verifier) {
  const std::lock_guard lock(mutex_);
  compare(verifier);
  std::memcpy(verifier_.data(), verifier, verifier_.size());
  any_ = true;
  ++count_;
}

std::uint64_t NfsWrites::begin_commit() {
  const std::lock_guard lock(mutex_);
  return count_;
}

void NfsWrites::committed(const char* verifier, std::uint64_t begun) {
  const std::lock_guard lock(mutex_);
  compare(verifier);
  if (count_ == begun) any_ = false;
}

void NfsWrites::commit_failed(int error) {
  const std::lock_guard lock(mutex_);
  fail(error);
}

bool NfsWrites::begin_ahead(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  ahead_bytes_ += bytes;
  if (ahead_ || ahead_bytes_ < ahead_bytes_min) return false;
  ahead_ = true;
  ahead_bytes_ = 0;
  return true;
}

void NfsWrites::committed_ahead(const char* verifier, int error) {
  const std::lock_guard lock(mutex_);
  ahead_ = false;
  if (error != 0) fail(error);
  if (verifier != nullptr) compare(verifier);
}

std::uint64_t NfsWrites::seen_by_others() const {
  const std::lock_guard lock(mutex_);
  return reported_ || errors_ == 0 ? errors_ : errors_ - 1;
}

int NfsWrites::error_since(std::uint64_t& seen) {
  const std::lock_guard lock(mutex_);
  if (seen == errors_) return 0;
  seen = errors_;
  reported_ = true;
  return error_;
}

bool NfsWrites::is_settled() const {
  const std::lock_guard lock(mutex_);
  return !any_ && !ahead_ && (reported_ || errors_ == 0);
}

// With the server's previous answer. Each loss is one error: from then on its new verifier counts.
void NfsWrites::compare(const char* verifier) {
  if (!any_ || std::memcmp(verifier_.data(), verifier, verifier_.size()) == 0) return;
  std::memcpy(verifier_.data(), verifier, verifier_.size());
  fail(-EIO);
}

void NfsWrites::fail(int error) {
  ++errors_;
  error_ = error;
  reported_ = false;
}

NfsOpenWrites::NfsOpenWrites(std::string file)
    : file_(std::move(file)),
      of_file_(of_this_process<Records>().open(file_)),
      seen_(of_file_->seen_by_others()) {}

NfsOpenWrites::~NfsOpenWrites() {
  of_this_process<Records>().close(file_);
}

int NfsOpenWrites::error() {
  const std::lock_guard lock(mutex_);
  return of_file_->error_since(seen_);
}

}  // namespace ferry::storage
