// What an NFS client keeps of a file: its handle, and which writes the server may still lose.
#pragma once

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>

#include "storage/nfs_library.hpp"
#include "storage/remote_file.hpp"

namespace ferry::storage {

// A server's name for a file.
class NfsHandle {
 public:
  NfsHandle() = default;
  explicit NfsHandle(const nfs_fh3& from) {
    bytes_ = std::min<std::uint32_t>(from.data.data_len, NFS3_FHSIZE);
    std::memcpy(data_.data(), from.data.data_val, bytes_);
  }
  // For the arguments of a call; refers to this.
  nfs_fh3 argument() const {
    nfs_fh3 handle{};
    handle.data.data_len = bytes_;
    handle.data.data_val = const_cast<char*>(data_.data());
    return handle;
  }

 private:
  std::array<char, NFS3_FHSIZE> data_{};
  std::uint32_t bytes_ = 0;
};

// Follows the writes that a server has acknowledged without making them durable. Each such answer
// carries a verifier that changes when the server starts anew: a commit that brings another one
// says that the writes before may be lost. They are not kept here to be sent again, so that is an
// error of the sync. So is an error of a commit that nobody waited for. Thread-safe.
class NfsUnstableWrites {
 public:
  void acknowledged(const char* verifier) {
    const std::lock_guard lock(mutex_);
    if (any_ && std::memcmp(verifier_.data(), verifier, verifier_.size()) != 0) lost_ = true;
    std::memcpy(verifier_.data(), verifier, verifier_.size());
    any_ = true;
    ++count_;
  }
  // Before a commit is sent; what committed() must be given.
  std::uint64_t begin_commit() {
    const std::lock_guard lock(mutex_);
    return count_;
  }
  // The server's answer. 0, or -EIO once for writes that it may have lost.
  int committed(const char* verifier, std::uint64_t begun) {
    const std::lock_guard lock(mutex_);
    if (any_ && std::memcmp(verifier_.data(), verifier, verifier_.size()) != 0) lost_ = true;
    if (count_ == begun) any_ = false;
    return take_loss();
  }
  // After an acknowledged write which a sync follows: whether the server should begin with what it
  // has, for which nobody waits. If so, committed_ahead() has to follow.
  bool begin_ahead(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    ahead_bytes_ += bytes;
    if (ahead_ || ahead_bytes_ < ahead_bytes_min) return false;
    ahead_ = true;
    ahead_bytes_ = 0;
    return true;
  }
  // `verifier`: null where there was no good answer; `error`: what the server said, or 0.
  void committed_ahead(const char* verifier, int error) {
    const std::lock_guard lock(mutex_);
    ahead_ = false;
    if (error != 0) failed_ = error;
    if (verifier == nullptr || !any_) return;
    if (std::memcmp(verifier_.data(), verifier, verifier_.size()) != 0) lost_ = true;
  }
  // At the end of the file's use.
  int closed() {
    const std::lock_guard lock(mutex_);
    return take_loss();
  }

 private:
  int take_loss() {
    const int result = failed_ != 0 ? failed_ : lost_ ? -EIO : 0;
    if (lost_) any_ = false;
    lost_ = false;
    failed_ = 0;
    return result;
  }

  // Some ten milliseconds of a fast disk: the cost of the commits themselves does not show.
  static constexpr std::size_t ahead_bytes_min = std::size_t{16} << 20;

  std::mutex mutex_;
  std::array<char, NFS3_WRITEVERFSIZE> verifier_{};
  std::uint64_t count_ = 0;
  bool any_ = false;
  bool lost_ = false;
  bool ahead_ = false;  // a commit that nobody waits for is under way
  int failed_ = 0;      // the error of one
  std::size_t ahead_bytes_ = 0;
};

class NfsServer;

struct NfsFile final : RemoteFile {
  NfsFile() : RemoteFile(Scheme::nfs) {}

  std::shared_ptr<NfsServer> server;
  NfsHandle handle;
  std::uint32_t read_bytes_max = 0;  // in one request
  std::uint32_t write_bytes_max = 0;
  // Shared with commits that nobody waits for, which may end after the file's close.
  const std::shared_ptr<NfsUnstableWrites> unstable = std::make_shared<NfsUnstableWrites>();
};

}  // namespace ferry::storage
