// Fails one of many: the n-th point that a program reaches, for every n until a run reaches fewer.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

#include "support/depth.hpp"

namespace ferry::test {

inline constexpr std::uint64_t never = 1'000'000;  // a point that no program reaches

// Counts points. Thread-safe; allocates nothing.
class NthPoint {
 public:
  // From now on, the n-th point strikes, and the `other`-th, too, if it is not 0.
  void arm(std::uint64_t n, std::uint64_t other = 0) {
    reached_ = 0;
    struck_ = 0;
    other_ = other;
    n_ = n;
  }
  // Returns what it was armed for.
  std::uint64_t disarm() { return n_.exchange(0); }
  // At each point: whether this is the one that fails.
  bool strikes() {
    const std::uint64_t n = n_.load(std::memory_order_relaxed);
    if (n == 0) return false;
    const std::uint64_t number = reached_.fetch_add(1, std::memory_order_relaxed) + 1;
    if (number != n && number != other_.load(std::memory_order_relaxed)) return false;
    ++struck_;
    return true;
  }
  bool armed() const { return n_ != 0; }
  bool struck() const { return struck_ != 0; }
  unsigned times_struck() const { return struck_; }
  std::uint64_t reached() const { return reached_; }

 private:
  std::atomic<std::uint64_t> n_{0};
  std::atomic<std::uint64_t> other_{0};
  std::atomic<std::uint64_t> reached_{0};
  std::atomic<unsigned> struck_{0};
};

// Whether what this thread does counts, for points that tests pass as well: a test's thread counts
// only what it does in Ferry.
class PointsHere {
 public:
  explicit PointsHere(bool counts) : before_(count) { count = counts; }
  ~PointsHere() { count = before_; }
  PointsHere(const PointsHere&) = delete;
  PointsHere& operator=(const PointsHere&) = delete;

  static inline thread_local bool count = true;

 private:
  const bool before_;
};

// Ends the program as failed (SIGALRM) if something hangs: far beyond what any run takes.
class Alarm {
 public:
  Alarm() { alarm(240); }
  ~Alarm() { alarm(0); }
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;
};

// Calls run(n) for n = 1, 2, ... until it returns without having reached its n-th point, which
// makes the last run one without a fault. Returns how many failed. `step`: only every step-th of
// them, from a random one on.
template <class Run>
std::uint64_t for_every_point(NthPoint& point, const Run& run, std::uint64_t step = 1) {
  std::uint64_t failed = 0;
  for (std::uint64_t n = step == 1 ? 1 : 1 + Random().below(step); n < never; n += step) {
    SCOPED_TRACE("the point that fails: " + std::to_string(n));
    {
      const Alarm alarm;
      run(n);
    }
    const bool struck = point.struck();
    if (testing::Test::HasFailure()) return failed;
    if (!struck) {
      EXPECT_GT(failed, 0U) << "no point was reached";
      return failed;
    }
    ++failed;
  }
  ADD_FAILURE() << "the program does not end";
  return never;
}

// Calls run(n, m) for pairs of points, drawn from those that `run(never, 0)` reaches.
template <class Run>
void for_pairs_of_points(const NthPoint& point, const Run& run) {
  run(never, 0);
  const std::uint64_t points = point.reached();
  ASSERT_GT(points, 1U);
  Random random;
  for (std::uint64_t i = 0; i < scaled(8) && !testing::Test::HasFailure(); ++i) {
    const std::uint64_t n = 1 + random.below(points);
    const std::uint64_t m = 1 + random.below(points);
    SCOPED_TRACE("the points that fail: " + std::to_string(n) + " and " + std::to_string(m));
    const Alarm alarm;
    run(n, m);
  }
  // What they left behind.
  run(never, 0);
}

}  // namespace ferry::test
