// A file of any storage by blocking calls, for everything outside of the timed region: what is
// verified did not come by way of what is measured.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "programs/file_cache.hpp"
#include "storage/calls.hpp"

namespace ferry::bench {

// Whether a path names a file by the URI of a storage, in place of one of a mounted file system.
bool is_uri(const std::string& path);

// The storages that such calls go to, shared by all who hold them: clients of their own, beside the
// runtimes'. They end with the last holder, which must be before the process's static objects do.
// Thread-safe.
std::shared_ptr<storage::Storage> side_storage();

// By plain system calls where it is a file of a mounted file system, else by the storage's client.
// Functions throw ferry::Error that names the path. For one thread.
class StoredFile {
 public:
  // `flags` of open(2).
  explicit StoredFile(const std::string& path, int flags = O_RDONLY);
  // By the clients of `storage`, which outlives it.
  StoredFile(storage::Storage& storage, const std::string& path, int flags);
  ~StoredFile();
  StoredFile(const StoredFile&) = delete;
  StoredFile& operator=(const StoredFile&) = delete;

  const std::string& path() const { return path_; }
  std::uint64_t size_bytes() const;
  bool is_regular() const;
  // All of the bytes; EIO when the file ends before.
  void read(void* data, std::uint64_t bytes, std::uint64_t offset) const;
  void write(const void* data, std::uint64_t bytes, std::uint64_t offset) const;
  void sync() const;

 private:
  void open(storage::Storage& storage, int flags);
  void check(std::int64_t result) const;
  void on_file(storage::Kind kind, storage::Operation& operation) const;
  void move(storage::Kind kind, std::byte* data, std::uint64_t bytes, std::uint64_t offset) const;

  const std::string path_;
  std::shared_ptr<storage::Storage> held_;
  std::optional<PlainFile> plain_;
  std::unique_ptr<storage::Calls> calls_;  // where it is a URI, and the next
  storage::File* file_ = nullptr;
};

// Whether there is anything at the path. Throws ferry::Error where the storage does not say.
bool file_exists(const std::string& path);
// Also of one that is not there. Throws ferry::Error.
void remove_file(const std::string& path);

}  // namespace ferry::bench
