#include "programs/stored_file.hpp"

#include <cerrno>
#include <filesystem>
#include <mutex>
#include <system_error>

#include <sys/stat.h>
#include <unistd.h>

#include <ferry/ferry.hpp>

#include "storage/router.hpp"
#include "storage/uri.hpp"

namespace ferry::bench {

using storage::checked;
using storage::Kind;

namespace {

constexpr std::uint32_t mode_of_new_files = 0600;

std::int64_t run_on_path(Kind kind, const std::string& path) {
  return storage::SyncCalls(*side_storage()).run({.kind = kind, .path = path.c_str()});
}

}  // namespace

bool is_uri(const std::string& path) {
  return storage::scheme_of(path) != storage::Scheme::posix;
}

std::shared_ptr<storage::Storage> side_storage() {
  static std::mutex mutex;
  static std::weak_ptr<storage::Storage> shared;
  const std::lock_guard lock(mutex);
  std::shared_ptr<storage::Storage> storage = shared.lock();
  if (storage == nullptr) {
    // No mounted file is opened here, so use the cheapest engine.
    storage = storage::make_router({.engine = storage::Engine::threads});
    shared = storage;
  }
  return storage;
}

StoredFile::StoredFile(const std::string& path, int flags) : path_(path) {
  if (!is_uri(path)) {
    plain_.emplace(path, flags);
    return;
  }
  storage_ = side_storage();
  file_ = std::make_unique<storage::SyncFile>(*storage_);
  checked(file_->open(path_, flags, mode_of_new_files), path_);
}

storage::Status StoredFile::status() const {
  storage::Status status;
  checked(file_->status(status), path_);
  return status;
}

std::uint64_t StoredFile::size_bytes() const {
  return plain_ ? plain_->size_bytes() : status().size_bytes;
}

bool StoredFile::keeps_bytes() const {
  if (plain_) return plain_->keeps_bytes();
  const std::uint32_t mode = status().mode;
  if (S_ISDIR(mode)) throw Error(EISDIR, path_);
  return S_ISREG(mode);
}

void StoredFile::read(void* data, std::uint64_t bytes, std::uint64_t offset) const {
  if (plain_) return plain_->read(data, bytes, offset);
  const auto moved = static_cast<std::uint64_t>(checked(file_->read(data, bytes, offset), path_));
  if (moved == bytes) return;
  throw Error(EIO, path_ + " ends at " + std::to_string(offset + moved) + " bytes");
}

void StoredFile::write(const void* data, std::uint64_t bytes, std::uint64_t offset) const {
  if (plain_) return plain_->write(data, bytes, offset);
  checked(file_->write(data, bytes, offset), path_);
}

void StoredFile::sync() const {
  if (!plain_) {
    checked(file_->sync(), path_);
  } else if (::fsync(plain_->fd()) != 0) {
    throw Error(errno, "syncing " + path_);
  }
}

bool is_block_device(const std::string& path) {
  std::error_code error;
  return !is_uri(path) && std::filesystem::is_block_file(path, error);
}

bool file_exists(const std::string& path) {
  if (!is_uri(path)) {
    return ::access(path.c_str(), F_OK) == 0;
  }
  const std::int64_t result = run_on_path(Kind::path_status, path);
  if (result != -ENOENT) checked(result, path);
  return result == 0;
}

void remove_file(const std::string& path) {
  const std::int64_t result = is_uri(path)                  ? run_on_path(Kind::unlink, path)
                              : ::unlink(path.c_str()) == 0 ? 0
                                                            : -errno;
  if (result != -ENOENT) checked(result, "removing " + path);
}

}  // namespace ferry::bench
