#include "load/resources.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include <malloc.h>
#include <unistd.h>

#include "support/depth.hpp"

namespace ferry::load {

Holdings holdings_now() {
  const auto entries = [](const char* folder) {
    return static_cast<std::uint64_t>(
        std::distance(std::filesystem::directory_iterator(folder), {}));
  };
  malloc_trim(0);  // what is free is no leak
  std::uint64_t pages = 0;
  std::uint64_t resident_pages = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident_pages;
  Holdings now{entries("/proc/self/fd"), entries("/proc/self/task"), 0, 0};
  if (test::sanitized) return now;  // its own memory grows for a while
  now.resident_bytes = resident_pages * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
  const struct mallinfo2 heap = mallinfo2();
  now.heap_bytes = heap.uordblks + heap.hblkhd;
  return now;
}

ReadyTime::ReadyTime(const std::string& thread_name) {
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::string name;
    std::ifstream(task.path() / "comm") >> name;
    if (name == thread_name) files_.push_back(task.path() / "schedstat");
  }
}

std::uint64_t ReadyTime::ns() const {
  std::uint64_t sum = 0;
  for (const std::string& file : files_) {
    std::uint64_t ran = 0;
    std::uint64_t ready = 0;
    std::ifstream(file) >> ran >> ready;
    sum += ready;
  }
  return files_.empty() ? 0 : sum / files_.size();
}

std::vector<std::string> growth(const std::vector<Holdings>& samples, std::size_t settling,
                                const Allowance& allowance) {
  std::vector<std::string> found;
  const auto compare = [&](const char* what, std::uint64_t Holdings::*member, double share,
                           std::uint64_t more) {
    std::uint64_t before = 0;
    for (std::size_t i = 0; i < settling; ++i)
      before = std::max(before, samples[i].*member);
    const std::uint64_t allowed =
        before + more + static_cast<std::uint64_t>(share * static_cast<double>(before));
    const std::uint64_t after = samples.back().*member;
    if (after > allowed) {
      found.push_back(std::string(what) + ": " + std::to_string(before) + " after the warm-up, " +
                      std::to_string(after) + " at the end; allowed are " +
                      std::to_string(allowed));
    }
  };
  compare("descriptors", &Holdings::descriptors, 0, allowance.descriptors);
  compare("threads", &Holdings::threads, 0, allowance.threads);
  compare("resident bytes", &Holdings::resident_bytes, allowance.resident_share,
          allowance.resident_bytes);
  compare("heap bytes", &Holdings::heap_bytes, allowance.heap_share, allowance.heap_bytes);
  return found;
}

}  // namespace ferry::load
