// Emulates groups of lanes: a thread per lane of a warp, in step at every collective operation.
// Slow but exact: code for groups runs without a GPU, and ThreadSanitizer checks it.
#pragma once

#include <array>
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

#include <ferry/device/platform.hpp>

namespace ferry::cpu {

inline constexpr std::uint32_t warp_lanes = 32;

// State shared by the lanes of one group.
class LaneTeam {
 public:
  static constexpr std::size_t value_bytes_max = device::in_lines(64);

  explicit LaneTeam(std::uint32_t lanes) : barrier_(lanes), values_(lanes) {}

  std::uint32_t size() const { return static_cast<std::uint32_t>(values_.size()); }
  void sync() { barrier_.arrive_and_wait(); }

  // Every lane gives a value and sees all lanes' values until it has called `use`.
  template <class T, class Use>
  auto exchange(std::uint32_t lane, const T& value, Use use) {
    static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= value_bytes_max);
    std::memcpy(values_[lane].data(), &value, sizeof value);
    sync();
    const auto result = use([this](std::uint32_t other) {
      T copy;
      std::memcpy(&copy, values_[other].data(), sizeof copy);
      return copy;
    });
    sync();  // no lane overwrites a value that another still reads
    return result;
  }

 private:
  std::barrier<> barrier_;
  std::vector<std::array<std::byte, value_bytes_max>> values_;
};

// One lane's handle of its group: the operations of device/group.hpp and of warps. Every lane must
// call each collective operation, in the same order.
class LaneGroup {
 public:
  LaneGroup(LaneTeam& team, std::uint32_t lane) : team_(&team), lane_(lane) {}

  std::uint32_t lane() const { return lane_; }
  std::uint32_t size() const { return team_->size(); }
  void sync() const { team_->sync(); }

  // The leader's value.
  template <class T>
  T broadcast(const T& value) const {
    return shuffle(value, 0);
  }
  // The value of lane `from`.
  template <class T>
  T shuffle(const T& value, std::uint32_t from) const {
    return team_->exchange(lane_, value, [&](auto of) { return of(from); });
  }
  // One bit per lane whose predicate holds.
  std::uint64_t ballot(bool predicate) const { return match(predicate, true); }
  // One bit per lane that gave the same value as this one.
  template <class T>
  std::uint64_t match(const T& value) const {
    return match(value, value);
  }

 private:
  template <class T>
  std::uint64_t match(const T& value, const T& wanted) const {
    return team_->exchange(lane_, value, [&](auto of) {
      std::uint64_t bits = 0;
      for (std::uint32_t other = 0; other < size(); ++other) {
        if (of(other) == wanted) bits |= std::uint64_t{1} << other;
      }
      return bits;
    });
  }

  LaneTeam* team_;
  std::uint32_t lane_;
};

// Runs program(LaneGroup) on every lane of one group. If it throws on one lane, it must throw on
// all at the same place, or the others wait for ever.
template <class Program>
void run_lanes(std::uint32_t lanes, Program program) {
  LaneTeam team(lanes);
  std::mutex mutex;
  std::exception_ptr first_error;
  std::vector<std::thread> threads;
  for (std::uint32_t lane = 0; lane < lanes; ++lane) {
    threads.emplace_back([&, lane] {
      try {
        program(LaneGroup(team, lane));
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!first_error) first_error = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  if (first_error) std::rethrow_exception(first_error);
}

}  // namespace ferry::cpu
