// Many threads read many small files: each free thread takes the next few paths.
#pragma once

#include <atomic>
#include <span>
#include <string>
#include <vector>

#include <ferry/bulk.hpp>

#include "bulk/lanes.hpp"

namespace ferry::bulk {

class FilesJob {
 public:
  explicit FilesJob(std::span<const std::string> paths) : paths_(paths), contents_(paths.size()) {}

  // Takes and reads the next few paths. Returns false if none is left. `slow`: they waited for a
  // disk, so more threads would help.
  bool read_some(Lane& lane, bool& slow);
  bool exhausted() const { return next_.load(std::memory_order_relaxed) >= paths_.size(); }
  // Waits until all paths are read.
  void wait() const;
  std::vector<Contents>& contents() { return contents_; }

 private:
  const std::span<const std::string> paths_;
  std::vector<Contents> contents_;
  std::atomic<std::size_t> next_{0};
  std::atomic<std::size_t> done_{0};
};

}  // namespace ferry::bulk
