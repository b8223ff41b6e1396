#include "programs/stored_file.hpp"

#include <cerrno>
#include <mutex>

#include <sys/stat.h>
#include <unistd.h>

#include <ferry/ferry.hpp>

#include "storage/router.hpp"
#include "storage/uri.hpp"

namespace ferry::bench {

using storage::Kind;
using storage::Operation;

namespace {

constexpr std::uint32_t mode_of_new_files = 0600;

std::int64_t run_on_path(Kind kind, const std::string& path) {
  const std::shared_ptr<storage::Storage> storage = side_storage();
  storage::Calls calls(*storage);
  Operation operation;
  operation.kind = kind;
  operation.path = path.c_str();
  return calls.run(operation);
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
  if (is_uri(path)) {
    held_ = side_storage();
    open(*held_, flags);
  } else {
    plain_.emplace(path, flags);
  }
}

StoredFile::StoredFile(storage::Storage& storage, const std::string& path, int flags)
    : path_(path) {
  if (is_uri(path)) {
    open(storage, flags);
  } else {
    plain_.emplace(path, flags);
  }
}

StoredFile::~StoredFile() {
  if (file_ == nullptr) return;
  Operation operation;
  operation.kind = Kind::close;
  operation.file = file_;
  calls_->run(operation);  // unsynced data is the caller's risk
}

void StoredFile::open(storage::Storage& storage, int flags) {
  calls_ = std::make_unique<storage::Calls>(storage);
  Operation operation;
  operation.kind = Kind::open;
  operation.path = path_.c_str();
  operation.flags = flags;
  operation.mode = mode_of_new_files;
  check(calls_->run(operation));
  file_ = operation.opened.release();
}

std::uint64_t StoredFile::size_bytes() const {
  if (plain_) return plain_->size_bytes();
  Operation operation;
  on_file(Kind::file_status, operation);
  return operation.status.size_bytes;
}

bool StoredFile::is_regular() const {
  if (plain_) return plain_->is_regular();
  Operation operation;
  on_file(Kind::file_status, operation);
  if (S_ISDIR(operation.status.mode)) throw Error(EISDIR, path_);
  return S_ISREG(operation.status.mode);
}

void StoredFile::read(void* data, std::uint64_t bytes, std::uint64_t offset) const {
  if (plain_) return plain_->read(data, bytes, offset);
  move(Kind::read, static_cast<std::byte*>(data), bytes, offset);
}

void StoredFile::write(const void* data, std::uint64_t bytes, std::uint64_t offset) const {
  if (plain_) return plain_->write(data, bytes, offset);
  // Nothing is stored there: an iovec serves both directions.
  move(Kind::write, const_cast<std::byte*>(static_cast<const std::byte*>(data)), bytes, offset);
}

void StoredFile::sync() const {
  if (plain_) {
    if (::fsync(plain_->fd()) != 0) throw Error(errno, "syncing " + path_);
    return;
  }
  Operation operation;
  on_file(Kind::sync, operation);
}

void StoredFile::check(std::int64_t result) const {
  if (result < 0) throw Error(static_cast<int>(-result), path_);
}

void StoredFile::on_file(Kind kind, Operation& operation) const {
  operation.kind = kind;
  operation.file = file_;
  check(calls_->run(operation));
}

void StoredFile::move(Kind kind, std::byte* data, std::uint64_t bytes, std::uint64_t offset) const {
  while (bytes > 0) {
    iovec vector{data, bytes};
    Operation operation;
    operation.offset = static_cast<std::int64_t>(offset);
    operation.vectors = std::span(&vector, 1);
    on_file(kind, operation);
    if (operation.result == 0) {
      throw Error(EIO, path_ + " ends at " + std::to_string(offset) + " bytes");
    }
    const auto moved = static_cast<std::uint64_t>(operation.result);
    data += moved;
    offset += moved;
    bytes -= moved;
  }
}

bool file_exists(const std::string& path) {
  if (!is_uri(path)) {
    return ::access(path.c_str(), F_OK) == 0;
  }
  const std::int64_t result = run_on_path(Kind::path_status, path);
  if (result < 0 && result != -ENOENT) throw Error(static_cast<int>(-result), path);
  return result == 0;
}

void remove_file(const std::string& path) {
  const std::int64_t result = is_uri(path)                  ? run_on_path(Kind::unlink, path)
                              : ::unlink(path.c_str()) == 0 ? 0
                                                            : -errno;
  if (result < 0 && result != -ENOENT) throw Error(static_cast<int>(-result), "removing " + path);
}

}  // namespace ferry::bench
