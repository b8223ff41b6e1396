// Small writes that follow one another, kept until they make a large one.
//
// A program that writes a few kilobytes at a time would wait for the storage each time. Its writes
// wait here instead, until they are a mebibyte, until anything else is asked of the file, until it
// is synced or closed, or for a second or two. So programs on the same tree see them at once. What
// goes wrong later is reported by the next write or sync of the same open file, once, and by each
// close before that.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "storage/storage.hpp"
#include "storage/sync_file.hpp"

namespace ferry::fuse {

// What is known of an open file's writes.
struct WrittenFile {
  storage::File* file = nullptr;
  std::uint64_t end = 0;                    // of the last write; a write there follows it
  std::atomic<std::int64_t> late_error{0};  // a negative errno that no call has reported yet
};

// Those of one file, for all that have it open. Thread-safe.
class GatheredWrites {
 public:
  static constexpr std::size_t bytes_max = 1 << 20;

  // `gathering` counts the files that have such writes.
  explicit GatheredWrites(std::atomic<std::uint64_t>& gathering) : gathering_(gathering) {}
  GatheredWrites(const GatheredWrites&) = delete;
  GatheredWrites& operator=(const GatheredWrites&) = delete;

  // Bytes, or a negative errno: of this write, or of an earlier one by the same open file. It goes
  // to the storage at once if it must (`at_once`), is large, or follows no other.
  std::int64_t write(storage::SyncCalls& calls, WrittenFile& by, std::uint64_t offset,
                     std::span<const char> data, bool at_once);
  // From now on every write goes to the storage at once.
  void stop() { gathers_ = false; }
  // Hands to the storage what there is. An error waits for the open file that wrote it.
  void settle(storage::SyncCalls& calls);
  // The same; and `by` is used no more.
  void leave(storage::SyncCalls& calls, const WrittenFile& by);

 private:
  void settle_locked(storage::SyncCalls& calls);

  std::atomic<std::uint64_t>& gathering_;
  std::mutex mutex_;  // held while the storage writes: reads of these bytes wait
  std::atomic<bool> gathers_{true};
  WrittenFile* writer_ = nullptr;
  std::uint64_t offset_ = 0;
  std::vector<char> bytes_;  // not empty: by writer_, at offset_
};

}  // namespace ferry::fuse
