// The interfaces that are measured beside each other: the same calls, on the same device threads,
// into the same device memory.
#pragma once

#include <cstdint>
#include <memory>

#include <ferry/ferry.hpp>

#include "tools/plan.hpp"

namespace ferry::bench {

// One device thread's access to the cell's file. Results are bytes or a negative errno.
class FileAccess {
 public:
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

  // Starts transfer number `slot` of those in flight, and waits for it. Only `ferry` has them.
  virtual void start(unsigned slot, void* data, std::uint64_t bytes, std::uint64_t offset);
  virtual std::int64_t finish(unsigned slot);
};

std::unique_ptr<FileAccess> make_access(const Cell& cell, DeviceThread& thread);

// The flags that the cell's operation needs, without O_CREAT and what goes with it.
int open_flags(const Cell& cell);

}  // namespace ferry::bench
