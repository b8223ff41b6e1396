// Drives a storage's queue from one thread: submits operations and waits for them. And what tests
// of storages share.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/uio.h>

#include "storage/storage.hpp"
#include "support/files.hpp"
#include "support/within.hpp"

namespace ferry::test {

using storage::File;
using storage::Kind;
using storage::Operation;

// A transfer to or from one piece of memory.
struct DrivenTransfer : Operation {
  DrivenTransfer(Kind which, File* of, const void* memory, std::size_t bytes, std::int64_t at = 0)
      : Operation{.kind = which, .file = of, .offset = at},
        vector{const_cast<void*>(memory), bytes} {
    vectors = {&vector, 1};
  }
  DrivenTransfer(const DrivenTransfer&) = delete;
  DrivenTransfer& operator=(const DrivenTransfer&) = delete;

  iovec vector;
};
using Transfers = std::deque<DrivenTransfer>;

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

  // Puts an operation in flight.
  void start(Operation& operation) {
    queue_->submit(operation);
    queue_->flush();
  }
  // Puts `count` transfers of adjacent pieces in flight at once, from the beginning of the file and
  // of `memory` on.
  Transfers start_pieces(Kind kind, File* file, char* memory, std::size_t piece,
                         std::size_t count) {
    Transfers pieces;
    for (std::size_t at = 0; at < count * piece; at += piece) {
      pieces.emplace_back(kind, file, memory + at, piece, static_cast<std::int64_t>(at));
      queue_->submit(pieces.back());
    }
    queue_->flush();
    return pieces;
  }
  // The next `count` finished operations must have this result.
  void expect_next(std::size_t count, std::int64_t result) {
    for (std::size_t i = 0; i < count; ++i)
      EXPECT_EQ(next().result, result);
  }

  std::int64_t run(Operation& operation) {
    start(operation);
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
  // A read must return exactly `wanted`.
  testing::AssertionResult finds(File* file, std::string_view wanted, char* memory,
                                 std::int64_t offset = 0) {
    const std::int64_t got = pread(file, memory, wanted.size(), offset);
    if (got < 0) return testing::AssertionFailure() << "reading ended with " << got;
    return same_bytes({memory, static_cast<std::size_t>(got)}, wanted);
  }
  std::int64_t file_status(File* file, storage::Status& status) {
    Operation operation{.kind = Kind::file_status, .file = file};
    run(operation);
    status = operation.status;
    return operation.result;
  }
  std::int64_t path_call(Kind kind, const std::string& path, storage::Status* status = nullptr,
                         std::uint32_t mode = 0) {
    Operation operation{.kind = kind, .path = path.c_str(), .mode = mode};
    const std::int64_t result = run(operation);
    if (status != nullptr) *status = operation.status;
    return result;
  }
  std::int64_t rename(const std::string& from, const std::string& to) {
    Operation operation{.kind = Kind::rename, .path = from.c_str(), .new_path = to.c_str()};
    return run(operation);
  }
  std::int64_t list(const std::string& path, std::vector<storage::DirectoryEntry>& entries) {
    Operation operation{.kind = Kind::list_directory, .path = path.c_str(), .entries = &entries};
    return run(operation);
  }
  // Sets or reports a layout; an `open` makes a new file with it, and closes that.
  std::int64_t layout_call(Kind kind, const std::string& path, storage::Layout& layout) {
    Operation operation{.kind = kind,
                        .path = path.c_str(),
                        .layout = &layout,
                        .flags = O_RDWR | O_CREAT | O_EXCL,
                        .mode = 0644};
    const std::int64_t result = run(operation);
    if (operation.opened != nullptr) close(operation.opened.release());
    return result;
  }

 private:
  std::uint32_t word_ = 0;
  std::unique_ptr<storage::Queue> queue_;
};

// An open file, in place of a File*. Its close must succeed.
class DrivenFile {
 public:
  DrivenFile(StorageDriver& driver, File* file) : driver_(driver), file_(file) {}
  ~DrivenFile() {
    try {
      if (file_ != nullptr) close();
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  }
  DrivenFile(DrivenFile&& other) noexcept : driver_(other.driver_), file_(other.release()) {}
  DrivenFile& operator=(const DrivenFile&) = delete;
  operator File*() const& { return file_; }  // NOLINT: used in place of one
  operator File*() && = delete;
  // The caller closes it.
  File* release() { return std::exchange(file_, nullptr); }
  void close() { EXPECT_EQ(driver_.close(std::exchange(file_, nullptr)), 0); }

 private:
  StorageDriver& driver_;
  File* file_;
};

inline storage::Layout striped(std::uint64_t stripe_bytes, std::uint32_t stripe_count) {
  storage::Layout layout;
  layout.stripe_bytes = stripe_bytes;
  layout.stripe_count = stripe_count;
  return layout;
}

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

// A test with a storage, its driver, and memory that is registered with it.
class StorageTest : public testing::Test {
 protected:
  explicit StorageTest(std::size_t arena_bytes = 4 << 20) : arena(arena_bytes) {}

  void use(std::unique_ptr<storage::Storage> used, unsigned depth = 64) {
    driver.reset();
    storage = std::move(used);
    driver = std::make_unique<StorageDriver>(*storage, arena.span(), depth);
  }
  DrivenFile must_open(const std::string& path, int flags, std::uint32_t mode = 0644) {
    return {*driver, driver->must_open(path, flags, mode)};
  }
  // These move bytes through the arena.
  std::int64_t write(File* file, std::string_view bytes, std::int64_t offset = 0) {
    std::memcpy(arena.data(), bytes.data(), bytes.size());
    return driver->pwrite(file, arena.data(), bytes.size(), offset);
  }
  testing::AssertionResult finds(File* file, std::string_view wanted, std::int64_t offset = 0) {
    return driver->finds(file, wanted, arena.data(), offset);
  }

  AlignedBytes arena;
  std::unique_ptr<storage::Storage> storage;
  std::unique_ptr<StorageDriver> driver;
};

}  // namespace ferry::test
