// Whether this process is still the one that an object was made in. A child of fork() has none of
// its parent's threads, and locks as they were at that moment.
#pragma once

#include <cstdint>

namespace ferry::bulk {

// How often this process and its ancestors have forked into being since the library was loaded.
std::uint64_t fork_generation();

class MadeHere {
 public:
  explicit operator bool() const { return generation_ == fork_generation(); }

 private:
  std::uint64_t generation_ = fork_generation();
};

}  // namespace ferry::bulk
