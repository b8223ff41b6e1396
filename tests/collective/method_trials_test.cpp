#include "collective/method_trials.hpp"

#include <cstdint>
#include <map>

#include <gtest/gtest.h>

namespace ferry::collective::method_trials_test {
namespace {

constexpr TransferShape some{4 << 20, 256 << 10};

// Transfers that take as long as their method does on this file.
class Trials : public testing::Test {
 protected:
  Method transfer(const TransferShape& shape = some, Method by_rule = Method::aggregate) {
    const Method method = trials.next(shape, by_rule, true);
    trials.tell(took_ns[method]);
    return method;
  }
  void transfers(int count, Method expected) {
    for (int i = 0; i < count; ++i)
      EXPECT_EQ(transfer(), expected) << i;
  }
  // So many by the other method, which takes so long; then the rule stays.
  void expect_tries(int count, std::int64_t other_took_ns) {
    took_ns[Method::independent] = other_took_ns;
    transfers(3, Method::aggregate);
    transfers(count, Method::independent);
    transfers(20, Method::aggregate);
  }

  MethodTrials trials;
  std::map<Method, std::int64_t> took_ns{{Method::aggregate, 1000}, {Method::independent, 500}};
};

TEST_F(Trials, TheFasterMethodStays) {
  transfers(3, Method::aggregate);
  transfers(20, Method::independent);
  EXPECT_DOUBLE_EQ(trials.ratio(), 0.5);
}

TEST_F(Trials, TheRuleStaysUnlessTheOtherIsClearlyFaster) {
  expect_tries(3, 850);
  EXPECT_EQ(trials.ratio(), 0);
}

TEST_F(Trials, AHopelessMethodIsTriedOnce) {
  expect_tries(1, 3001);
}

TEST_F(Trials, ASlowerMethodIsTriedTwice) {
  expect_tries(2, 1001);
}

TEST_F(Trials, TheFirstTransferOfAMethodDoesNotCount) {
  took_ns[Method::aggregate] = 400;
  transfers(1, Method::aggregate);
  took_ns[Method::aggregate] = 1000;
  transfers(2, Method::aggregate);
  took_ns[Method::independent] = 2500;
  transfers(1, Method::independent);
  took_ns[Method::independent] = 700;
  transfers(20, Method::independent);
}

TEST_F(Trials, WhatBecomesSlowIsLeft) {
  transfers(3, Method::aggregate);
  transfers(10, Method::independent);
  took_ns[Method::independent] = 1100;
  transfers(2, Method::independent);
  took_ns[Method::independent] = 500;
  transfers(1, Method::independent);
  took_ns[Method::independent] = 1100;
  transfers(3, Method::independent);
  transfers(20, Method::aggregate);
}

TEST_F(Trials, EachClassLearnsForItself) {
  transfers(3, Method::aggregate);
  for (const TransferShape& other : {TransferShape{some.bytes * 2, some.mean_extent_bytes},
                                     TransferShape{some.bytes, some.mean_extent_bytes / 2}})
    EXPECT_EQ(transfer(other), Method::aggregate);
  EXPECT_EQ(transfer(some, Method::independent), Method::independent) << "by another rule";
  EXPECT_EQ(transfer({some.bytes * 1.5, some.mean_extent_bytes}), Method::independent) << "alike";
}

TEST_F(Trials, WhatIsNotMeasuredTriesNothing) {
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(trials.next(some, Method::aggregate, false), Method::aggregate);
  transfers(3, Method::aggregate);
  EXPECT_EQ(trials.next(some, Method::aggregate, false), Method::aggregate);
  transfers(3, Method::independent);
  EXPECT_EQ(trials.next(some, Method::aggregate, false), Method::independent) << "learned";
}

TEST_F(Trials, AFailedTransferTellsNothing) {
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(trials.next(some, Method::aggregate, true), Method::aggregate);
  trials.tell(0);
  transfers(3, Method::aggregate);
  transfers(1, Method::independent);
}

TEST_F(Trials, MoreClassesThanItRemembersFollowTheRule) {
  TransferShape shape = some;
  for (int i = 0; i < 30; ++i, shape.bytes *= 2)
    for (int times = 0; times < 3; ++times)
      EXPECT_EQ(transfer(shape), Method::aggregate);
  EXPECT_EQ(transfer(shape), Method::aggregate) << "not remembered";
  EXPECT_EQ(transfer(), Method::independent);
}

}  // namespace
}  // namespace ferry::collective::method_trials_test
