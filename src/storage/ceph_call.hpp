// One operation on CephFS, executed by blocking calls of libcephfs in memory of the worker.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "storage/ceph_mount.hpp"
#include "storage/remote_call.hpp"
#include "storage/remote_file.hpp"

namespace ferry::storage {

struct Uri;

// Throws std::invalid_argument.
CephAddress ceph_address_of(const Uri& uri);

Status to_status(const struct ceph_statx& from, const CephAddress& address);

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

class CephCall final : public RemoteCall {
 public:
  CephCall(Operation& operation, Inbox& inbox, std::chrono::milliseconds timeout,
           std::shared_ptr<CephMounts> mounts);

 private:
  std::int64_t execute(std::vector<char>& memory) override;
  void let_go() override { handle_.reset(); }
  std::int64_t execute_on_file(std::vector<char>& memory);
  std::int64_t execute_path();
  std::int64_t open(const std::shared_ptr<CephMount>& mount, const std::string& path);
  int open_number(CephMount& mount, const std::string& path);
  std::int64_t read_piece(char* memory, std::int64_t bytes, std::int64_t offset) override;
  std::int64_t write_piece(char* memory, std::int64_t bytes, std::int64_t offset) override;
  std::int64_t size_now() override;
  std::int64_t close();
  int list_directory(CephMount& mount, const std::string& path);
  int explained(CephMount& mount, const std::string& path, int error);
  int status_of(CephMount& mount, Status& status, const char* path);

  const std::shared_ptr<CephMounts> mounts_;
  std::shared_ptr<CephHandle> handle_;
};

}  // namespace ferry::storage
