// Drives a storage's queue from one thread: submits operations and waits for them.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <sys/uio.h>

#include "storage/storage.hpp"
#include "support/within.hpp"

namespace ferry::test {

using storage::File;
using storage::Kind;
using storage::Operation;

class StorageDriver {
 public:
  explicit StorageDriver(storage::Storage& storage, std::span<std::byte> arena = {},
                         unsigned depth = 64) {
    storage::QueueOptions options;
    options.doorbell = storage::Doorbell{&word_};
    options.arena = arena;
    options.depth = depth;
    queue_ = storage.make_queue(options);
  }

  storage::Queue& queue() { return *queue_; }
  std::uint32_t* word() { return &word_; }
  std::uint32_t seen() { return std::atomic_ref<std::uint32_t>(word_).load(); }

  // The next finished operation; throws if none arrives for a long time.
  Operation& next() {
    const auto until = std::chrono::steady_clock::now() + patience;
    for (;;) {
      const std::uint32_t before = seen();
      if (Operation* operation = queue_->reap()) return *operation;
      if (std::chrono::steady_clock::now() > until) throw std::runtime_error("nothing finishes");
      queue_->wait(before, std::chrono::seconds(1));
    }
  }

  std::int64_t run(Operation& operation) {
    queue_->submit(operation);
    queue_->flush();
    if (&next() != &operation) throw std::runtime_error("another operation came back");
    return operation.result;
  }

  // The calls. Files belong to the storage until close().
  std::int64_t open(const std::string& path, int flags, File*& file, std::uint32_t mode = 0644) {
    Operation operation{.kind = Kind::open, .path = path.c_str(), .flags = flags, .mode = mode};
    run(operation);
    file = operation.opened.release();
    if ((operation.result == 0) != (file != nullptr)) throw std::runtime_error("no file or two");
    return operation.result;
  }
  File* must_open(const std::string& path, int flags, std::uint32_t mode = 0644) {
    File* file = nullptr;
    const std::int64_t error = open(path, flags, file, mode);
    if (error != 0) {
      throw std::system_error(static_cast<int>(-error), std::system_category(), "open " + path);
    }
    return file;
  }
  // Opens and closes.
  std::int64_t try_open(const std::string& path, int flags, std::uint32_t mode = 0644) {
    File* file = nullptr;
    const std::int64_t error = open(path, flags, file, mode);
    if (file != nullptr) close(file);
    return error;
  }
  std::int64_t close(File* file) { return simple(Kind::close, file); }
  std::int64_t simple(Kind kind, File* file, std::int64_t offset = 0) {
    Operation operation{.kind = kind, .file = file, .offset = offset};
    return run(operation);
  }
  std::int64_t transfer(Kind kind, File* file, std::vector<iovec> vectors, std::int64_t offset,
                        std::uint64_t* value = nullptr) {
    Operation operation{.kind = kind, .file = file, .offset = offset, .vectors = vectors};
    const std::int64_t result = run(operation);
    if (value != nullptr) *value = operation.value;
    return result;
  }
  std::int64_t pread(File* file, void* buffer, std::size_t bytes, std::int64_t offset) {
    return transfer(Kind::read, file, {iovec{buffer, bytes}}, offset);
  }
  std::int64_t pwrite(File* file, const void* buffer, std::size_t bytes, std::int64_t offset) {
    return transfer(Kind::write, file, {iovec{const_cast<void*>(buffer), bytes}}, offset);
  }
  std::int64_t append(File* file, const void* buffer, std::size_t bytes, std::uint64_t& value) {
    return transfer(Kind::append, file, {iovec{const_cast<void*>(buffer), bytes}}, 0, &value);
  }
  std::int64_t path_call(Kind kind, const std::string& path, storage::Status* status = nullptr) {
    Operation operation{.kind = kind, .path = path.c_str()};
    const std::int64_t result = run(operation);
    if (status != nullptr) *status = operation.status;
    return result;
  }

 private:
  std::uint32_t word_ = 0;
  std::unique_ptr<storage::Queue> queue_;
};

// Memory suitable for direct I/O.
class AlignedBytes {
 public:
  explicit AlignedBytes(std::size_t bytes)
      : bytes_(bytes),
        data_(static_cast<char*>(
            std::aligned_alloc(4096, (std::max<std::size_t>(bytes, 1) + 4095) / 4096 * 4096))) {
    if (data_ == nullptr) throw std::bad_alloc();
    __builtin_memset(data_, 0, bytes);
  }
  ~AlignedBytes() { std::free(data_); }
  AlignedBytes(const AlignedBytes&) = delete;
  AlignedBytes& operator=(const AlignedBytes&) = delete;
  char* data() const { return data_; }
  std::size_t size() const { return bytes_; }
  std::string_view view(std::size_t from, std::size_t count) const { return {data_ + from, count}; }
  std::span<std::byte> span() const { return {reinterpret_cast<std::byte*>(data_), bytes_}; }

 private:
  std::size_t bytes_;
  char* data_;
};

}  // namespace ferry::test
