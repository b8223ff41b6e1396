// The files and directories that the kernel has opened in a mapped tree.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <utility>
#include <vector>

#include "fuse/gathered_writes.hpp"
#include "storage/storage.hpp"
#include "storage/sync_file.hpp"

namespace ferry::fuse {

// A removed name that a file has until it is closed, where the storage would end it.
struct HiddenName {
  std::uint64_t folder = 0;
  std::string name;  // empty: none
  std::string path;  // as it was; the folder may have moved since
};

// The kernel releases it after the last request that names it.
struct MappedFile {
  std::uint64_t node = 0;
  std::unique_ptr<storage::File> file;  // null: a directory, or closed
  bool appends = false;
  bool writes = false;
  std::atomic<bool> has_written{false};  // since it was last synced
  std::mutex flushing;                   // one flush at a time
  WrittenFile written;
  std::shared_ptr<GatheredWrites> gathered;  // of the node, for all that have it open
  HiddenName hidden;                         // remove this when it is closed
  std::shared_mutex closing;  // held shared where a request on another file uses this one
  std::mutex mutex;           // guards the entries
  std::vector<storage::DirectoryEntry> entries;
  std::uint64_t listed_at = 0;  // in changes of the tree
};

using MappedFilePointer = std::shared_ptr<MappedFile>;

// An open file that a request uses without naming it: it is not closed meanwhile.
struct BorrowedFile {
  MappedFilePointer file;  // null: none
  std::shared_lock<std::shared_mutex> lock;
};

// Thread-safe.
class MappedFiles {
 public:
  // The number by which the kernel will name it.
  std::uint64_t add(const MappedFilePointer& opened);
  // Null: no such number.
  MappedFilePointer find(std::uint64_t node, std::uint64_t number) const;
  // Any of a node's open files, for writing if asked for.
  BorrowedFile borrow(std::uint64_t node, bool writes) const;
  // Closes it. The last one returns the name of a hidden file.
  HiddenName close(storage::SyncCalls& calls, std::uint64_t node, std::uint64_t number);
  // All, and removes hidden files.
  void close_all(storage::SyncCalls& calls);
  // Makes the last one that is closed return `name`. False: none is open.
  bool hide(std::uint64_t node, const HiddenName& name);
  // For the nodes of files with several names: their writes are not gathered.
  void note_other_names(std::uint64_t node);

  // Hands gathered writes to the storage: those of a node, or all.
  void settle(storage::SyncCalls& calls, std::uint64_t node) const;
  void settle_all(storage::SyncCalls& calls) const;

 private:
  using Key = std::pair<std::uint64_t, std::uint64_t>;  // node and number

  // Those of a node that has an open file; null: none.
  std::shared_ptr<GatheredWrites> gathered_of(std::uint64_t node) const;
  static void end(storage::SyncCalls& calls, MappedFile& opened);

  mutable std::mutex mutex_;
  std::map<Key, MappedFilePointer> files_;
  std::uint64_t last_ = 0;
  std::atomic<std::uint64_t> gathering_{0};  // nodes that have gathered writes
};

}  // namespace ferry::fuse
