// Where a copy goes: what may be overwritten there and how, and what stays after a failure.
#pragma once

#include <cstdint>
#include <string>

#include "programs/copier.hpp"
#include "storage/calls.hpp"
#include "storage/storage.hpp"

namespace ferry::bench {

// Blocking calls on one storage; those that throw throw ferry::Error.
class CopyCalls {
 public:
  explicit CopyCalls(storage::Calls& calls) : calls_(calls) {}

  std::int64_t on_file(storage::Kind kind, storage::File* file, std::uint64_t offset = 0);
  std::int64_t close(storage::File*& file);
  std::int64_t on_path(storage::Kind kind, const std::string& path,
                       storage::Status* status = nullptr);
  // The file, or a negative errno in `error`.
  storage::File* open(const std::string& path, int flags, std::uint32_t mode, std::int64_t& error);
  storage::File* open(const std::string& path, int flags, std::uint32_t mode);
  storage::Status status_of(storage::File* file, const std::string& path);
  void rename(const std::string& from, const std::string& to);
  // Whether the last name of the path, which is there, is a symbolic link.
  bool is_link(const std::string& path);

 private:
  storage::Calls& calls_;
};

class CopyTarget {
 public:
  CopyTarget(CopyCalls calls, const CopyOptions& options) : calls_(calls), options_(options) {}

  // Refuses what must not be overwritten by a file of this status.
  void choose(const storage::Status& source);
  // Opens the file that the copy is written to.
  void open(const storage::Status& source);
  storage::File* file() const { return file_; }
  const std::string& path() const { return to_; }
  // All is written: the file is as long as the copy.
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
  storage::Status status_;  // of what is there
  storage::File* file_ = nullptr;
  std::string scratch_;  // empty: there is none
  bool in_place_ = false;
  bool touched_ = false;   // in place: it is neither what it was nor the copy
  bool reserved_ = false;  // an empty file with the final name is ours
};

}  // namespace ferry::bench
