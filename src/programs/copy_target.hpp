// The destination of a copy: what may be overwritten and how, and what remains after a failure.
#pragma once

#include <cstdint>
#include <string>

#include "programs/copier.hpp"
#include "storage/sync_file.hpp"

namespace ferry::bench {

// Throws ferry::Error.
class CopyTarget {
 public:
  CopyTarget(storage::SyncCalls& calls, const CopyOptions& options)
      : calls_(calls), options_(options) {}

  // Refuses what a file of this status must not overwrite.
  void choose(const storage::Status& source);
  // Opens the file to write to.
  void open(const storage::Status& source);
  storage::SyncFile& file() { return file_; }
  const std::string& path() const { return to_; }
  // All is written: sets the file's size.
  void trim(std::uint64_t bytes);
  // Gives the file its name, durably.
  void publish(std::uint64_t bytes);
  // After a failure.
  Remains give_up();

 private:
  // Tells other commands that a copy writes the scratch file (python/ferry/replacing.py): until it
  // is renamed or removed, so beyond its close.
  class Lock {
   public:
    Lock() = default;
    ~Lock() { release(); }
    Lock(const Lock&) = delete;
    Lock& operator=(const Lock&) = delete;
    void take(int descriptor);
    void release();

   private:
    int descriptor_ = -1;
  };

  void look();
  bool is_link(const std::string& path);
  bool is_the_source(const storage::Status& source) const;
  void refuse_kind(const storage::Status& source) const;
  void follow_link();
  void check_writable();
  bool keep_permissions();
  bool take_name();
  bool open_scratch(std::uint32_t mode);
  bool is_owned_alike();
  void open_in_place();
  void reserve();
  void make_name_durable();

  storage::SyncCalls& calls_;
  const CopyOptions& options_;
  std::string to_ = options_.to;
  bool exists_ = false;
  storage::Status status_;  // of the existing file
  storage::SyncFile file_{calls_};
  std::string scratch_;  // empty: there is none
  Lock lock_;
  bool in_place_ = false;
  bool touched_ = false;   // in place: neither the old file nor the copy
  bool reserved_ = false;  // an empty file with the final name is ours
};

}  // namespace ferry::bench
