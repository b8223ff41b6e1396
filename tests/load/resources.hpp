// Whether a process keeps what it should give back.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace ferry::load {

// What the process holds while no call is in progress and no file is open.
struct Holdings {
  std::uint64_t descriptors = 0;
  std::uint64_t threads = 0;
  std::uint64_t resident_bytes = 0;
  std::uint64_t heap_bytes = 0;  // given out by malloc; 0 where a sanitizer has its own
};
Holdings holdings_now();

// For how long this process's threads of that name have been ready to run without a CPU, on
// average.
class ReadyTime {
 public:
  explicit ReadyTime(const std::string& thread_name);  // of those that are there
  std::uint64_t ns() const;

 private:
  std::vector<std::string> files_;
};

// How much more there may be at the end than after the warm-up. Storages start threads and
// connections when they first have much to do at once, and a late rush is no leak.
struct Allowance {
  std::uint64_t descriptors = 4;
  std::uint64_t threads = 24;
  double resident_share = 0.05;
  std::uint64_t resident_bytes = 8 << 20;
  double heap_share = 0.02;
  std::uint64_t heap_bytes = 2 << 20;
};

// A line for each thing of which there is more in the last sample than in the fullest one of the
// warm-up, which are the first `settling` samples.
std::vector<std::string> growth(const std::vector<Holdings>& samples, std::size_t settling,
                                const Allowance& allowance = {});

}  // namespace ferry::load
