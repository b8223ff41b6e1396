// The destination of a copy: what may be overwritten and how, and what remains after a failure.
#pragma once

#include <cstdint>
#include <string>

#include "programs/copier.hpp"
#include "storage/calls.hpp"
#include "storage/storage.hpp"

namespace ferry::bench {

// Blocking calls on one storage. Throwing ones throw ferry::Error.
class CopyCalls {
 public:
  explicit CopyCalls(storage::Calls& calls) : calls_(calls) {}

  std::int64_t on_file(storage::Kind kind, storage::File* file, std::uint64_t offset = 0);
  std::int64_t close(storage::File*& file);
  std::int64_t on_path(storage::Kind kind, const std::string& path,
                       storage::Status* status = nullptr);
  // Opens the file, or sets `error` to a negative errno.
  storage::File* open(const std::string& path, int flags, std::uint32_t mode, std::int64_t& error);
  storage::File* open(const std::string& path, int flags, std::uint32_t mode);
  storage::Status status_of(storage::File* file, const std::string& path);
  void rename(const std::string& from, const std::string& to);
  // Whether the path's last name, which exists, is a symbolic link.
  bool is_link(const std::string& path);

 private:
  storage::Calls& calls_;
};

class CopyTarget {
 public:
  CopyTarget(CopyCalls calls, const CopyOptions& options) : calls_(calls), options_(options) {}

  // Refuses what a file of this status must not overwrite.
  void choose(const storage::Status& source);
  // Opens the file to write to.
  void open(const storage::Status& source);
  storage::File* file() const { return file_; }
  const std::string& path() const { return to_; }
  // All is written: sets the file's size.
  void trim(std::uint64_t bytes);
  // Gives the file its name.
  void publish(std::uint64_t bytes);
  // After a failure.
  Remains give_up();

 private:
  void look();
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

  CopyCalls calls_;
  const CopyOptions& options_;
  std::string to_ = options_.to;
  bool exists_ = false;
  storage::Status status_;  // of the existing file
  storage::File* file_ = nullptr;
  std::string scratch_;  // empty: there is none
  bool in_place_ = false;
  bool touched_ = false;   // in place: neither the old file nor the copy
  bool reserved_ = false;  // an empty file with the final name is ours
};

}  // namespace ferry::bench
