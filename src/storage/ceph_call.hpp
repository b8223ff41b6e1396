// One operation on CephFS, executed by blocking calls of libcephfs in memory of the worker.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "storage/bounded_pool.hpp"
#include "storage/ceph_mount.hpp"
#include "storage/remote_file.hpp"

namespace ferry::storage {

struct Uri;

// Throws std::invalid_argument.
CephAddress ceph_address_of(const Uri& uri);

// The mounts in use, and what their calls share. Thread-safe.
class CephMounts {
 public:
  explicit CephMounts(std::string library) : library_name_(std::move(library)) {}
  // Unmounts; what takes longer than a call may take is left to itself.
  ~CephMounts();
  CephMounts(const CephMounts&) = delete;
  CephMounts& operator=(const CephMounts&) = delete;

  // Throws Unavailable.
  std::shared_ptr<CephMount> of(const CephAddress& address);
  // Appends of this process to one file take turns.
  std::mutex& turn_of(std::uint64_t inode) { return appending_[inode % appending_.size()]; }

 private:
  const std::string library_name_;
  std::mutex mutex_;  // guards the next two
  std::shared_ptr<const CephLibrary> library_;
  std::map<CephAddress, std::shared_ptr<CephMount>> mounts_;
  std::array<std::mutex, 64> appending_;
};

// An open file of the library; calls that it keeps hold on to it.
class CephHandle {
 public:
  CephHandle(std::shared_ptr<CephMount> mount, int number)
      : mount_(std::move(mount)), number_(number) {}
  ~CephHandle() { close(); }
  CephHandle(const CephHandle&) = delete;
  CephHandle& operator=(const CephHandle&) = delete;
  // 0 or a negative errno: what had been written and could not be stored.
  int close();
  int number() const { return number_; }
  CephMount& mount() const { return *mount_; }

 private:
  const std::shared_ptr<CephMount> mount_;
  int number_;
};

struct CephFile final : RemoteFile {
  CephFile() : RemoteFile(Scheme::ceph) {}
  std::shared_ptr<CephHandle> handle;
};

class CephCall final : public BoundedCall {
 public:
  CephCall(Operation& operation, Inbox& inbox, std::chrono::milliseconds timeout,
           std::shared_ptr<CephMounts> mounts);
  std::int64_t work(std::vector<char>& memory) override;

 private:
  std::int64_t execute(std::vector<char>& memory);
  std::int64_t execute_path();
  std::int64_t open(const std::shared_ptr<CephMount>& mount, const std::string& path);
  int open_number(CephMount& mount, const std::string& path);
  std::int64_t read(std::vector<char>& memory);
  std::int64_t write(std::vector<char>& memory, std::int64_t offset);
  std::int64_t append(std::vector<char>& memory);
  std::int64_t close();
  int explained(CephMount& mount, const std::string& path, int error);
  int status_of(CephMount& mount, Status& status, const char* path);
  // Copies between `memory` and the operation's vectors, from its byte `done` on.
  bool copy(char* memory, std::int64_t done, std::int64_t bytes, bool out);

  const std::shared_ptr<CephMounts> mounts_;
  // Copies: the operation may be gone while the library still works on it.
  const Kind kind_;
  const std::string path_;
  const std::string new_path_;
  const int flags_;
  const std::uint32_t mode_;
  const std::int64_t offset_;
  const Layout layout_;
  const bool has_layout_;
  std::int64_t bytes_ = 0;
  std::unique_ptr<CephFile> closing_;
  std::shared_ptr<CephHandle> handle_;
  bool appends_ = false;
  bool writable_ = false;
  std::uint64_t inode_ = 0;
};

}  // namespace ferry::storage
