// How a device thread waits: it spins for a bounded time, then parks, and watches the server's
// phase.
//
// Only the server's end ends a wait, not a slow disk. LoopState.phase reports it: `dead` ends the
// wait with -EIO, `stopped` with -ESHUTDOWN. Silence means nothing: a stopped process (a debugger,
// Ctrl-Z, a paused virtual machine) continues later. Every death is announced (R8 in ring.hpp).
#pragma once

#include <cerrno>
#include <cstdint>

#include <ferry/device/platform.hpp>
#include <ferry/device/ring.hpp>

namespace ferry::device {

struct WaitPolicy {
  std::uint64_t spin_ns = 500'000;  // 0 if spinning cannot help (more threads than CPUs)
};

// A monotonic clock.
FERRY_DEVICE inline std::uint64_t clock_ns(const HostHooks& hooks) {
#if defined(__CUDA_ARCH__)
  (void)hooks;
  std::uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
#else
  return hooks.now_ns();
#endif
}

// The first sleeps between two looks at the server's phase; later ones last up to a second.
inline constexpr std::uint64_t park_slice_ns = 50'000'000;
// And if no wake-up is certain, up to 10 ms.
inline constexpr std::uint64_t nap_ns = 50'000;
inline constexpr std::uint64_t longest_nap_ns = 10'000'000;
inline constexpr std::uint64_t no_limit = ~std::uint64_t{0};

class Waiter {
 public:
  FERRY_DEVICE Waiter(const WaitPolicy& policy, const HostHooks& hooks, const LoopState& loop)
      : policy_(policy), hooks_(hooks), loop_(loop) {}

  // Waits until `word` == wanted. `parked` (may be null) is set around every sleep so that the
  // writer of `word` knows to wake us (R6). Returns 0, -EIO or -ESHUTDOWN, or -ETIMEDOUT after
  // `limit_ns` without spinning.
  FERRY_DEVICE int until_equal(std::uint32_t& word, std::uint32_t wanted, std::uint32_t* parked,
                               std::uint64_t limit_ns = no_limit) {
    SystemRef<std::uint32_t> watched(word);
    if (spin([&] { return watched.load(acquire) == wanted; })) return 0;
    announce(parked, 1);
    int error = 0;
    const std::uint64_t start = limit_ns == no_limit ? 0 : clock_ns(hooks_);
    for (std::uint64_t sleeps = 0;; ++sleeps) {
      const std::uint32_t seen = watched.load(seq_cst);
      if (seen == wanted) break;
      if (limit_ns != no_limit && clock_ns(hooks_) - start >= limit_ns) {
        error = -ETIMEDOUT;
        break;
      }
      error = server_error();
      if (error != 0) {
        // The answer may have come between the look at the word and the look at the loop.
        if (watched.load(seq_cst) == wanted) error = 0;
        break;
      }
      sleep(word, seen, next_sleep_ns(park_slice_ns, sleeps));
    }
    announce(parked, 0);
    return error;
  }

  // Waits until `word` is `wanted` or has passed it; for cells with several waiting threads. Each
  // announces its sleep and does not take that back: only the next user of the cell may.
  FERRY_DEVICE int until_passed(std::uint32_t& word, std::uint32_t wanted, std::uint32_t& parked) {
    SystemRef<std::uint32_t> watched(word);
    const auto passed = [&](std::uint32_t seen) {
      return static_cast<std::int32_t>(seen - wanted) >= 0;
    };
    if (spin([&] { return passed(watched.load(acquire)); })) return 0;
    for (std::uint64_t sleeps = 0;; ++sleeps) {
      announce(&parked, 1);
      const std::uint32_t seen = watched.load(seq_cst);
      if (passed(seen)) return 0;
      if (const int error = server_error(); error != 0)
        return passed(watched.load(seq_cst)) ? 0 : error;
      sleep(word, seen, next_sleep_ns(park_slice_ns, sleeps));
    }
  }

  // Waits until `condition()` holds; for conditions without a signal (space in a ring). With a word
  // that is likely to change then, naps end at its change, if its writer looks at `parked` (R6),
  // and after longest_nap_ns in any case; -ETIMEDOUT as above.
  template <class Condition>
  FERRY_DEVICE int until(Condition condition, std::uint64_t limit_ns = no_limit) {
    if (spin(condition)) return 0;
    return until_true(condition, limit_ns, [&] { nap(); });
  }
  template <class Condition>
  FERRY_DEVICE int until(Condition condition, std::uint32_t& word, std::uint32_t* parked,
                         std::uint64_t limit_ns = no_limit) {
    if (spin(condition)) return 0;
    announce(parked, 1);
    const std::uint32_t seen = SystemRef<std::uint32_t>(word).load(seq_cst);
    std::uint64_t naps = 0;
    const int error = until_true(condition, limit_ns, [&] {
      sleep(word, seen, next_sleep_ns(nap_ns, naps++, longest_nap_ns));
    });
    announce(parked, 0);
    return error;
  }

  FERRY_DEVICE bool slept() const { return slept_; }

 private:
  template <class Condition, class Rest>
  FERRY_DEVICE int until_true(Condition condition, std::uint64_t limit_ns, Rest rest) {
    const std::uint64_t start = limit_ns == no_limit ? 0 : clock_ns(hooks_);
    while (!condition()) {
      if (const int error = server_error(); error != 0) return condition() ? 0 : error;
      if (limit_ns != no_limit && clock_ns(hooks_) - start >= limit_ns) return -ETIMEDOUT;
      rest();
    }
    return 0;
  }

  template <class Condition>
  FERRY_DEVICE bool spin(Condition condition) {
    // A hot server answers within a few hundred cycles: look without pausing first (measured: 135
    // against 155 ns per round trip between two sibling threads, no difference between cores).
    FERRY_NO_UNROLL
    for (int i = 0; i < spins_before_pausing; ++i) {
      if (condition()) return true;
    }
    if (policy_.spin_ns == 0) return false;
    std::uint64_t start = 0;
    do {
      FERRY_NO_UNROLL
      for (int i = 0; i < spins_per_clock_read; ++i) {
        pause_briefly();
        if (condition()) return true;
      }
      // The clock starts after the first round: an answer from a hot server comes before that.
      if (start == 0) start = clock_ns(hooks_);
    } while (clock_ns(hooks_) - start < policy_.spin_ns);
    return false;
  }

  // R6. A CUDA thread never sleeps where it could be woken, and spares the bus the store.
  FERRY_DEVICE static void announce(std::uint32_t* parked, std::uint32_t asleep) {
#if defined(__CUDA_ARCH__)
    (void)parked, (void)asleep;
#else
    if (parked != nullptr) SystemRef<std::uint32_t>(*parked).store(asleep, seq_cst);
#endif
  }

  FERRY_DEVICE int server_error() const {
    const LoopPhase now = SystemRef<LoopPhase>(const_cast<LoopPhase&>(loop_.phase)).load(acquire);
    return now == LoopPhase::dead ? -EIO : now == LoopPhase::stopped ? -ESHUTDOWN : 0;
  }

  FERRY_DEVICE void sleep(const std::uint32_t& word, std::uint32_t seen, std::uint64_t timeout_ns) {
    slept_ = true;
    park(hooks_, word, seen, timeout_ns);
  }

  FERRY_DEVICE void nap() {
    slept_ = true;
    yield(hooks_);
  }

  static constexpr int spins_before_pausing = 32;
  static constexpr int spins_per_clock_read = 32;

  const WaitPolicy& policy_;
  const HostHooks& hooks_;
  const LoopState& loop_;
  bool slept_ = false;
};

}  // namespace ferry::device
