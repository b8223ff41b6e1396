// The possible changes of a frame's state word, and those seen. Sets the cache's hook: only for
// programs of one file that do not link the library.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace ferry::test {
inline void on_transition(std::uint64_t before, std::uint64_t after);
}  // namespace ferry::test
#define FERRY_CACHE_TRANSITION(before, after) ::ferry::test::on_transition(before, after)
#include <ferry/device/cache/page_cache.hpp>

namespace ferry::test {

// A state word reduced to what matters here: one bit per flag.
namespace flags {
inline constexpr unsigned valid = 1;
inline constexpr unsigned dirty = 2;
inline constexpr unsigned filling = 4;
inline constexpr unsigned writing = 8;
inline constexpr unsigned orphan = 16;
inline constexpr unsigned taken = 32;
inline constexpr unsigned pinned = 64;    // by anybody
inline constexpr unsigned copying = 128;  // some writer, or a reader of a page that is not valid
inline constexpr unsigned all = 255;
}  // namespace flags

inline unsigned flags_of(std::uint64_t state) {
  using device::cache::State;
  static_assert(State::valid == std::uint64_t{flags::valid} << State::first_flag &&
                State::taken == std::uint64_t{flags::taken} << State::first_flag);
  unsigned found = static_cast<unsigned>(state >> State::first_flag) & 63;
  if ((state & State::pins) != 0) found |= flags::pinned;
  if ((state & State::writers) != 0) found |= flags::copying;
  return found;
}
inline std::string name_of(unsigned found) {
  std::string name = "vdfwotpc";
  for (unsigned i = 0; i < 8; ++i)
    if ((found >> i & 1) == 0) name[i] = '-';
  return name;
}

// A kind of change: from states with all of `with` and any of `open` and `maybe`.
struct TransitionRule {
  const char* what;
  unsigned with;
  unsigned set;
  unsigned clear;
  unsigned open;        // every combination of these has to be seen
  unsigned maybe;       // these need not
  bool seldom = false;  // need not be seen at all
};

// The changes seen. Yields sometimes, so that others run between any two changes.
class Transitions {
 public:
  void add(std::uint64_t before, std::uint64_t after) {
    using device::cache::State;
    const unsigned from = flags_of(before);
    const unsigned to = flags_of(after);
    const std::uint64_t pins = (after - before) & State::pins;
    if (pins != 0 && pins != 1 && pins != State::pins) wrong_.store(true);
    if (after >> State::first_writer > (after & State::pins)) wrong_.store(true);
    if (from != to) {
      std::atomic<bool>& seen = seen_[from][to];
      if (!seen.load(std::memory_order_relaxed)) seen.store(true, std::memory_order_relaxed);
    }
    thread_local std::uint32_t turn = 1;
    turn ^= turn << 13;
    turn ^= turn >> 17;
    turn ^= turn << 5;
    if (turn % 64 == 0) std::this_thread::yield();
  }

  // Those that no rule allows.
  std::string illegal(const std::vector<TransitionRule>& rules) const {
    std::string list = wrong_ ? "pins or writers were counted wrong; " : "";
    each([&](unsigned from, unsigned to) {
      for (const TransitionRule& rule : rules)
        if (matches(rule, from, to)) return;
      list += name_of(from) + " to " + name_of(to) + "; ";
    });
    return list;
  }
  // Required ones that were not seen.
  std::string missing(const std::vector<TransitionRule>& rules) const {
    std::string list;
    for (const TransitionRule& rule : rules) {
      if (rule.seldom) continue;
      std::array<bool, 256> found{};
      each([&](unsigned from, unsigned to) {
        if (matches(rule, from, to)) found[from & rule.open] = true;
      });
      for (unsigned some = 0; some < 256; ++some) {
        if ((some & ~rule.open) != 0 || found[some]) continue;
        list += std::string(rule.what) + " with " + name_of(some) + "; ";
      }
    }
    return list;
  }

  template <class Use>
  void each(Use use) const {
    for (unsigned from = 0; from < 256; ++from)
      for (unsigned to = 0; to < 256; ++to)
        if (seen_[from][to]) use(from, to);
  }

 private:
  static bool matches(const TransitionRule& rule, unsigned from, unsigned to) {
    return (from & ~(rule.open | rule.maybe)) == rule.with &&
           to == ((from | rule.set) & ~rule.clear);
  }

  std::array<std::array<std::atomic<bool>, 256>, 256> seen_{};
  std::atomic<bool> wrong_{false};
};

inline Transitions transitions;

inline void on_transition(std::uint64_t before, std::uint64_t after) {
  transitions.add(before, after);
}

}  // namespace ferry::test
