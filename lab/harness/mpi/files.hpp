// What is done to the measured files outside of the timed region, by one rank: making, verifying
// and removing them, on any storage.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "harness/mpi/part.hpp"
#include "storage/router.hpp"
#include "storage/sync_file.hpp"

namespace ferry::bench::mpi {

// All functions throw ferry::Error; verify() throws ContentsError, too. For one thread.
class Files {
 public:
  Files() : storage_(storage::make_router()), calls_(*storage_) {}

  storage::Storage& storage() { return *storage_; }
  bool exists(const std::string& path);
  // Also of one that is not there.
  void remove(const std::string& path);
  // An empty file with the cell's layout.
  void make_striped(const Cell& cell, const std::string& path);
  // The layout that a file was granted; absent where nothing is striped.
  std::optional<storage::Layout> layout_of(const std::string& path);
  // A whole file for reading, durable.
  void make(const Cell& cell, const std::string& path, std::uint64_t bytes, std::uint64_t seed);
  // Compares [begin, end) with what a cell must have written.
  void verify(const Cell& cell, const std::string& path, std::uint64_t begin, std::uint64_t end,
              std::uint64_t seed);
  // EBADMSG unless the file has this size.
  void check_size(const std::string& path, std::uint64_t bytes);

 private:
  const std::shared_ptr<storage::Storage> storage_;
  storage::SyncCalls calls_;
};

// Files that the measurement has made, in the order of their names. Removed when this ends, however
// it ends. remove_all() may be called by another thread that then ends the process.
class MadeFiles {
 public:
  explicit MadeFiles(Files& files) : files_(files) {}
  ~MadeFiles();
  MadeFiles(const MadeFiles&) = delete;
  MadeFiles& operator=(const MadeFiles&) = delete;

  // Before it is made.
  void add(const std::string& path);
  bool has(const std::string& path) const { return paths_.count(path) != 0; }
  void remove(const std::string& path);
  // By a storage of its own.
  void remove_all();

 private:
  void lock() {
    while (lock_.test_and_set(std::memory_order_acquire)) {
    }
  }

  Files& files_;
  std::set<std::string> paths_;
  std::atomic_flag lock_;
};

}  // namespace ferry::bench::mpi
