// When the time of a file's last change tells its contents apart from later ones.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <unordered_map>

namespace ferry::storage {

// Changes less than this after one at `changed_ns` may get the same time: the ticks of the clock
// that it is from are at most so long.
constexpr std::chrono::nanoseconds tick_max(std::int64_t changed_ns) {
  return changed_ns % 1'000'000'000 != 0 ? std::chrono::milliseconds(100)
                                         : std::chrono::milliseconds(2000);
}

// Follows the times that a server gives its files, whose clock is not this machine's. One that was
// the same a tick ago is of no change still to come, whatever the clocks say. Thread-safe.
class ChangeTimes {
 public:
  using Clock = std::chrono::steady_clock;

  // Status::version of a file that was last changed at `changed_ns`, as the server said when it was
  // asked at `asked` and answered at `answered`. 0: the file may still change without another time.
  std::uint64_t version(std::uint64_t inode, std::int64_t changed_ns, Clock::time_point asked,
                        Clock::time_point answered);

 private:
  struct Seen {
    std::int64_t changed_ns;
    Clock::time_point first;  // no later than this was it so
  };
  std::mutex mutex_;
  std::unordered_map<std::uint64_t, Seen> seen_;  // by inode; guarded by it
};

}  // namespace ferry::storage
