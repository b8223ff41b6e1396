// A word in shared memory that says whether this process lives. A reader needs no system
// call, and it is true at the moment of a kill: the kernel's robust futexes tell (D2 in
// shared_table.hpp).
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

namespace ferry::daemon {

class AliveWord {
 public:
  // From now on the word holds a thread's number. Throws std::system_error.
  explicit AliveWord(std::atomic<std::uint32_t>& word);
  // Afterwards it says that the holder died.
  ~AliveWord();
  AliveWord(const AliveWord&) = delete;
  AliveWord& operator=(const AliveWord&) = delete;

 private:
  std::atomic<std::uint32_t>& word_;
  std::atomic<std::uint32_t> stopping_{0};
  std::thread thread_;  // it holds the word and does nothing else
};

}  // namespace ferry::daemon
