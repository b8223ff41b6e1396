#include "harness/usage.hpp"

#include <thread>

#include <gtest/gtest.h>

namespace ferry::bench {
namespace {

TEST(Others, AreTheProcessWithoutTheCallers) {
  const Usage process{700, 500, 30, 9};
  const Usage callers{400, 300, 10, 4};
  const Usage rest = others(process, callers);
  EXPECT_EQ(rest.user_cpu_ns, 300U);
  EXPECT_EQ(rest.system_cpu_ns, 200U);
  EXPECT_EQ(rest.voluntary_switches, 20U);
  EXPECT_EQ(rest.involuntary_switches, 5U);
}

TEST(Others, KeepTheSumWhereTheSplitsDoNotAgree) {
  // More user time by the callers' count than by the process's, and the other way round.
  Usage rest = others({100, 500, 0, 0}, {300, 200, 0, 0});
  EXPECT_EQ(rest.user_cpu_ns + rest.system_cpu_ns, 100U);
  rest = others({500, 100, 0, 0}, {200, 300, 0, 0});
  EXPECT_EQ(rest.user_cpu_ns + rest.system_cpu_ns, 100U);
}

TEST(Others, AreNeverNegative) {
  const Usage rest = others({1, 1, 1, 1}, {2, 2, 2, 2});
  EXPECT_EQ(
      rest.user_cpu_ns + rest.system_cpu_ns + rest.voluntary_switches + rest.involuntary_switches,
      0U);
}

TEST(ProcessUsage, CountsThreadsThatHaveEnded) {
  constexpr std::uint64_t wanted_ns = 20'000'000;
  const Usage before = process_usage();
  const Usage mine = thread_usage();
  std::thread([] {
    Usage spent;
    do {
      spent = thread_usage();
    } while (spent.user_cpu_ns + spent.system_cpu_ns < wanted_ns);
  }).join();
  const Usage rest = others(process_usage() - before, thread_usage() - mine);
  EXPECT_GE(rest.user_cpu_ns + rest.system_cpu_ns, wanted_ns / 2);
}

}  // namespace
}  // namespace ferry::bench
