// A file of any storage with blocking calls, for everything outside timed regions: verification
// does not use the measured path.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "programs/file_cache.hpp"
#include "storage/sync_file.hpp"

namespace ferry::bench {

// Whether a path is the URI of a file on a storage.
bool is_uri(const std::string& path);

// The storages for such calls, shared by all holders, with their own clients beside the runtimes'.
// They end with the last holder, which must be destroyed before the process's static objects.
// Thread-safe.
std::shared_ptr<storage::Storage> side_storage();

// Uses plain system calls for mounted files, else the storage's client. Throws ferry::Error with
// the path. For one thread.
class StoredFile {
 public:
  // `flags` of open(2).
  explicit StoredFile(const std::string& path, int flags = O_RDONLY);

  const std::string& path() const { return path_; }
  std::uint64_t size_bytes() const;
  // Whether it is a regular file or a block device.
  bool keeps_bytes() const;
  // All of the bytes; EIO if the file ends before.
  void read(void* data, std::uint64_t bytes, std::uint64_t offset) const;
  void write(const void* data, std::uint64_t bytes, std::uint64_t offset) const;
  void sync() const;

 private:
  storage::Status status() const;

  const std::string path_;
  std::optional<PlainFile> plain_;
  std::shared_ptr<storage::Storage> storage_;  // for a URI, as is the next
  std::unique_ptr<storage::SyncFile> file_;
};

// Whether the path leads to a block device of this machine.
bool is_block_device(const std::string& path);
// Whether anything exists at the path. Throws ferry::Error if the storage does not say.
bool file_exists(const std::string& path);
// Also if it does not exist. Throws ferry::Error.
void remove_file(const std::string& path);

}  // namespace ferry::bench
