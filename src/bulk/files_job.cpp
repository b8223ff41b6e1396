#include "bulk/files_job.hpp"

#include <algorithm>
#include <chrono>

namespace ferry::bulk {
namespace {

constexpr std::size_t run_files = 16;
// A file in the page cache takes less than 10 us, one on a disk more than 50.
constexpr std::chrono::microseconds slow_each{40};

}  // namespace

bool FilesJob::read_some(Lane& lane, bool& slow) {
  const std::size_t first = next_.fetch_add(run_files, std::memory_order_relaxed);
  if (first >= paths_.size()) return false;
  const std::size_t last = std::min(first + run_files, paths_.size());
  const auto begin = std::chrono::steady_clock::now();
  for (std::size_t index = first; index < last; ++index)
    contents_[index] = lane.read_file(paths_[index]);
  slow = std::chrono::steady_clock::now() - begin > slow_each * (last - first);
  if (done_.fetch_add(last - first, std::memory_order_acq_rel) + (last - first) == paths_.size())
    done_.notify_all();
  return true;
}

void FilesJob::wait() const {
  for (;;) {
    const std::size_t done = done_.load(std::memory_order_acquire);
    if (done == paths_.size()) return;
    done_.wait(done, std::memory_order_acquire);
  }
}

}  // namespace ferry::bulk
