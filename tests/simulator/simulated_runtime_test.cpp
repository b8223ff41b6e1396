// A runtime, its server, its page cache and its clients under random schedules and faults.
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>

#include <gtest/gtest.h>
#include <time.h>

#include "simulator/clients.hpp"
#include "simulator/simulator.hpp"
#include "support/depth.hpp"

namespace ferry::simulator {
namespace {

// FERRY_SIMULATOR_SEED repeats one run; FERRY_SIMULATOR_RUNS makes this many.
std::uint64_t number_in(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text != nullptr ? std::strtoull(text, nullptr, 10) : otherwise;
}

std::uint64_t seconds_now() {
  return static_cast<std::uint64_t>(time(nullptr));
}

TEST(SimulatedRuntime, KeepsItsPromisesWithFreshSeeds) {
  const char* given = std::getenv("FERRY_SIMULATOR_SEED");
  std::uint64_t seconds = 25;
  if (test::test_depth() == "quick") seconds = 3;
  if (test::is_deep()) seconds = 600;
  const std::uint64_t runs = number_in("FERRY_SIMULATOR_RUNS", given != nullptr ? 1 : 0);
  const std::uint64_t first = number_in("FERRY_SIMULATOR_SEED", seconds_now() * 1'000'000);
  const std::uint64_t until = seconds_now() + seconds;
  SimulatedRun sum;
  std::uint64_t seed = first;
  unsigned failed = 0;
  while (runs > 0 ? seed < first + runs : seconds_now() < until) {
    const SimulatedRun run = simulate(seed, run_clients);
    sum.points += run.points;
    sum.switches += run.switches;
    sum.calls += run.calls;
    sum.simulated_ns += run.simulated_ns;
    sum.digest = run.digest;
    if (run.failed) {
      ADD_FAILURE() << "FERRY_SIMULATOR_SEED=" << seed << " repeats this run:\n" << run.report;
      if (++failed == 5) break;
    }
    ++seed;
  }
  std::cout << "[ SIMULATED ] " << seed - first << " runs from seed " << first << ": " << sum.calls
            << " calls, " << sum.switches << " changes of threads at " << sum.points << " points, "
            << sum.simulated_ns / 1'000'000'000 << " s; the last run's digest is " << sum.digest
            << '\n';
}

TEST(SimulatedRuntime, RepeatsARunExactly) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const SimulatedRun run = simulate(seed, run_clients);
    const SimulatedRun again = simulate(seed, run_clients);
    EXPECT_EQ(run.digest, again.digest) << seed;
    EXPECT_EQ(run.points, again.points) << seed;
    EXPECT_EQ(run.simulated_ns, again.simulated_ns) << seed;
  }
}

}  // namespace
}  // namespace ferry::simulator
