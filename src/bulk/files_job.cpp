#include "bulk/files_job.hpp"

#include <algorithm>
#include <chrono>

#include "base/caught_error.hpp"
#include "base/waits.hpp"

namespace ferry::bulk {
namespace {

constexpr std::size_t run_files = 16;
// Reading a cached file takes less than 10 us, one on a disk more than 50.
constexpr std::chrono::microseconds slow_each{40};

// Throws nothing: all threads wait for every file, and a worker has nobody to tell.
Contents read_one(Lane& lane, const std::string& path) {
  Contents failed;
  try {
    return lane.read_file(path);
  } catch (...) {
    failed.error_number = caught_error();
  }
  return failed;
}

}  // namespace

bool FilesJob::read_some(Lane& lane, bool& slow) {
  const std::size_t first = next_.fetch_add(run_files, std::memory_order_relaxed);
  if (first >= paths_.size()) return false;
  const std::size_t last = std::min(first + run_files, paths_.size());
  const std::uint64_t waits_before = waits_so_far();
  const auto begin = std::chrono::steady_clock::now();
  for (std::size_t index = first; index < last; ++index)
    contents_[index] = read_one(lane, paths_[index]);
  // Slowness alone may mean that others use this CPU, where more threads would do harm.
  slow = std::chrono::steady_clock::now() - begin > slow_each * (last - first) &&
         waits_so_far() - waits_before >= (last - first) / 2;
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
