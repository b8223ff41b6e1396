// The simulator finds faults that depend on who runs when, and repeats a run exactly.
#include <cstdint>

#include <gtest/gtest.h>

#include "simulator/simulator.hpp"
#include "simulator/toy_programs.hpp"

namespace ferry::simulator {
namespace {

constexpr std::uint64_t seeds = 100;

struct Found {
  std::uint64_t failed = 0;
  std::string first_report;
};

Found try_seeds(void (*program)(bool), bool is_right) {
  Found found;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    const SimulatedRun run = simulate(seed, [&] { program(is_right); });
    if (!run.failed) continue;
    if (found.failed++ == 0) found.first_report = run.report;
  }
  return found;
}

void expect_only_wrong_ones_to_fail(void (*program)(bool), const char* report) {
  const Found right = try_seeds(program, true);
  EXPECT_EQ(right.failed, 0U) << right.first_report;
  const Found wrong = try_seeds(program, false);
  EXPECT_GT(wrong.failed, 0U);
  EXPECT_NE(wrong.first_report.find(report), std::string::npos) << wrong.first_report;
  testing::Test::RecordProperty("failed_seeds", std::to_string(wrong.failed));
}

TEST(Simulator, FindsALostWakeUp) {
  expect_only_wrong_ones_to_fail(hand_over_a_word, "all threads wait for one another");
}

TEST(Simulator, FindsARaceOfAnAtomic) {
  expect_only_wrong_ones_to_fail(count_up, "counted ");
}

TEST(Simulator, FindsAMissingBarrier) {
  expect_only_wrong_ones_to_fail(claim_a_place, "a place has two owners");
}

TEST(Simulator, FindsASecondFirstCall) {
  expect_only_wrong_ones_to_fail(make_once, "made 2 times");
}

TEST(Simulator, SaysWhetherAThreadThatStandsStillWaitsForACpu) {
  for (const bool starves : {false, true}) {
    const SimulatedRun run = simulate(1, [&] { watch_a_thread(starves); });
    EXPECT_FALSE(run.failed) << run.report;
  }
}

TEST(Simulator, RepeatsARunExactly) {
  std::uint64_t different = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const auto program = [] { hand_over_a_word(true), count_up(true), claim_a_place(true); };
    const SimulatedRun run = simulate(seed, program);
    const SimulatedRun again = simulate(seed, program);
    EXPECT_EQ(run.digest, again.digest) << seed;
    EXPECT_EQ(run.points, again.points) << seed;
    EXPECT_EQ(run.simulated_ns, again.simulated_ns) << seed;
    if (run.digest != simulate(seed + 1, program).digest) ++different;
  }
  EXPECT_GT(different, 15U);
}

}  // namespace
}  // namespace ferry::simulator
