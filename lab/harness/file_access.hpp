// The measured interfaces: the same calls, on the same device threads, into the same device memory.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <ferry/ferry.hpp>

#include "harness/layout.hpp"
#include "harness/plan.hpp"

namespace ferry::bench {

// One device thread's access to one of the cell's files. Results are bytes or a negative errno.
class FileAccess {
 public:
  explicit FileAccess(std::string path) : path_(std::move(path)) {}
  FileAccess(const FileAccess&) = delete;
  FileAccess& operator=(const FileAccess&) = delete;
  // Closes what is open.
  virtual ~FileAccess() = default;

  // `flags` of open(2). With O_CREAT the file gets the size it will have, where the interface needs
  // that (mmap). Throws ferry::Error.
  virtual void open(int flags) = 0;
  virtual std::int64_t read(void* data, std::uint64_t bytes, std::uint64_t offset) = 0;
  virtual std::int64_t write(const void* data, std::uint64_t bytes, std::uint64_t offset) = 0;
  // Throw ferry::Error. flush() hands to the host's kernel what the device's page cache holds back;
  // the other interfaces hold nothing back.
  virtual void flush() {}
  virtual void sync() = 0;
  virtual void close() = 0;

  // Starts transfer number `slot` of those in flight, and waits for it. Only `ferry` and `uring`
  // have them.
  virtual void start(unsigned slot, MeasuredOperation operation, void* data, std::uint64_t bytes,
                     std::uint64_t offset);
  virtual std::int64_t finish(unsigned slot);

 protected:
  const std::string& path() const { return path_; }
  // Throws ferry::Error with the path where a call failed.
  void check(std::int64_t result, const char* call) const;
  static std::int64_t or_errno(std::int64_t result);

 private:
  std::string path_;
};

// Access to file number `file` of the cell (harness/layout.hpp).
std::unique_ptr<FileAccess> make_access(const Cell& cell, unsigned file, DeviceThread& thread);

// By pread and pwrite.
std::unique_ptr<FileAccess> make_posix_access(std::string path);

// Access to every file of a part, in their order.
using Accesses = std::vector<std::unique_ptr<FileAccess>>;
Accesses make_accesses(const Cell& cell, const ThreadPart& part, DeviceThread& thread);

// The flags that the cell's operation needs, without O_CREAT and what goes with it.
int open_flags(const Cell& cell);

}  // namespace ferry::bench
