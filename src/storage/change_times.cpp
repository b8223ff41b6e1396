#include "storage/change_times.hpp"

namespace ferry::storage {
namespace {

constexpr std::size_t files_max = 4096;
// No two clocks in use differ by more, so such a change is not of this tick.
constexpr std::chrono::minutes surely_past{5};

bool is_long_ago(std::int64_t changed_ns) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return now - std::chrono::nanoseconds(changed_ns) > surely_past;
}

}  // namespace

std::uint64_t ChangeTimes::version(std::uint64_t inode, std::int64_t changed_ns,
                                   Clock::time_point asked, Clock::time_point answered) {
  const auto version = static_cast<std::uint64_t>(changed_ns);
  if (is_long_ago(changed_ns)) return version;
  const std::lock_guard lock(mutex_);
  // Who is forgotten has to be seen once more.
  if (seen_.size() >= files_max && seen_.count(inode) == 0) seen_.clear();
  const auto [at, is_new] = seen_.try_emplace(inode, Seen{changed_ns, answered});
  Seen& seen = at->second;
  if (!is_new && seen.changed_ns != changed_ns) seen = Seen{changed_ns, answered};
  return asked - seen.first > tick_max(changed_ns) ? version : 0;
}

}  // namespace ferry::storage
