// Work on a stack of its own, which stops and goes on.
#include "collective/fiber.hpp"

#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

namespace ferry::collective::fiber_test {
namespace {

struct Job {
  std::unique_ptr<Fiber> fiber = Fiber::make();
  int number = 0;
  int steps = 0;
  std::vector<std::string> seen;

  void start(Fiber::Work* work) { fiber->start(work, this); }
};

class Pausing {
 public:
  explicit Pausing(Job& job) : job_(job) {}
  ~Pausing() {
    Fiber::suspend(true);
    job_.seen.push_back("unwinds " + std::to_string(std::uncaught_exceptions()));
  }
  Pausing(const Pausing&) = delete;
  Pausing& operator=(const Pausing&) = delete;

 private:
  Job& job_;
};

// Stops while an exception is thrown, and where it is handled.
void throws(void* argument) {
  Job& job = *static_cast<Job*>(argument);
  try {
    try {
      const Pausing pausing(job);
      throw job.number;
    } catch (int) {
      Fiber::suspend(false);
      throw;
    }
  } catch (int number) {
    job.seen.push_back("has " + std::to_string(number));
  }
}

TEST(Fiber, ItsExceptionsAreItsOwn) {
  std::vector<Job> jobs(3);
  int number = 0;
  for (Job& job : jobs) {
    job.number = ++number;
    job.start(throws);
  }
  try {
    throw std::string("the caller's");
  } catch (const std::string&) {
    for (int step = 0; step < 2; ++step) {
      for (Job& job : jobs) {
        EXPECT_FALSE(job.fiber->resume(false));
        EXPECT_EQ(job.fiber->is_tired(), step == 0);
      }
    }
    EXPECT_EQ(std::uncaught_exceptions(), 0);
    for (Job& job : jobs)
      EXPECT_TRUE(job.fiber->resume(false));
    EXPECT_THROW(throw, std::string);
  }
  for (const Job& job : jobs) {
    const std::vector<std::string> wanted{"unwinds 1", "has " + std::to_string(job.number)};
    EXPECT_EQ(job.seen, wanted);
  }
  EXPECT_FALSE(Fiber::is_here());
}

void counts(void* argument) {
  Job& job = *static_cast<Job*>(argument);
  for (int i = 0; i < 4; ++i) {
    ++job.steps;
    Fiber::suspend(false);
  }
}

TEST(Fiber, GoesOnOnOtherThreadsAndStartsAgain) {
  Job job;
  for (int round = 1; round <= 3; ++round) {
    job.start(counts);
    for (int i = 0; i < 4; ++i) {
      std::thread([&] { EXPECT_FALSE(job.fiber->resume(false)); }).join();
      EXPECT_EQ(job.steps, 4 * (round - 1) + i + 1);
    }
    EXPECT_FALSE(job.fiber->is_idle());
    EXPECT_TRUE(job.fiber->resume(false));
    EXPECT_TRUE(job.fiber->is_idle());
  }
}

TEST(Fiber, StopsNowhereWhereItMayBlock) {
  Job job;
  job.start(counts);
  EXPECT_FALSE(job.fiber->resume(false));
  EXPECT_TRUE(job.fiber->resume(true));
  EXPECT_EQ(job.steps, 4);
}

}  // namespace
}  // namespace ferry::collective::fiber_test
