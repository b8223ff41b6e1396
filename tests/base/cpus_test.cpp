#include "base/cpus.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <sched.h>

#include "support/depth.hpp"

namespace ferry {
namespace {

TEST(ParseCpus, ReadsNumbersAndRanges) {
  EXPECT_EQ(parse_cpus("0"), (CpuSet{0}));
  EXPECT_EQ(parse_cpus("0-3,8"), (CpuSet{0, 1, 2, 3, 8}));
  EXPECT_EQ(parse_cpus("5-5"), (CpuSet{5}));
  EXPECT_EQ(parse_cpus("4095"), (CpuSet{4095}));
  EXPECT_EQ(parse_cpus(""), CpuSet{});
}

TEST(ParseCpus, SortsAndDropsDoubles) {
  EXPECT_EQ(parse_cpus("8,0-2,1,2-3"), (CpuSet{0, 1, 2, 3, 8}));
}

TEST(ParseCpus, RefusesEverythingElse) {
  for (const char* text : {",", "0,", ",0", "0,,1", "a", "1a", "-1", "1-", "-", "3-1", "1-2-3",
                           " 1", "1 ", "0x1", "4096", "99999999999999999999", "+1", "1.5"}) {
    EXPECT_THROW(parse_cpus(text), std::invalid_argument) << '\'' << text << '\'';
  }
}

TEST(ParseCpus, UnderstandsWhatIsPrinted) {
  test::Random random;
  for (std::uint64_t round = 0; round < test::scaled(2000); ++round) {
    CpuSet cpus;
    for (int cpu = 0; cpu < 40; ++cpu) {
      if (random.one_in(2)) cpus.push_back(cpu);
    }
    ASSERT_EQ(parse_cpus(to_string(cpus)), cpus) << to_string(cpus);
  }
}

TEST(PrintCpus, UsesRanges) {
  EXPECT_EQ(to_string({0, 1, 2, 3, 8}), "0-3,8");
  EXPECT_EQ(to_string({1, 3, 5}), "1,3,5");
  EXPECT_EQ(to_string({4, 5}), "4-5");
  EXPECT_EQ(to_string({}), "");
}

TEST(AllowedCpus, IsTheAffinityMask) {
  const CpuSet cpus = allowed_cpus();
  cpu_set_t mask;
  CPU_ZERO(&mask);
  ASSERT_EQ(sched_getaffinity(0, sizeof mask, &mask), 0);
  EXPECT_EQ(cpus.size(), static_cast<std::size_t>(CPU_COUNT(&mask)));
  EXPECT_TRUE(std::is_sorted(cpus.begin(), cpus.end()));
  for (const int cpu : cpus)
    EXPECT_TRUE(CPU_ISSET(static_cast<std::size_t>(cpu), &mask));
}

TEST(UsableCpus, IsAtLeastOneAndAtMostWhatIsAllowed) {
  EXPECT_GE(usable_cpus(), 1U);
  EXPECT_LE(usable_cpus(), allowed_cpus().size());
}

TEST(RunOn, BindsTheCallingThreadAlone) {
  const CpuSet before = allowed_cpus();
  std::thread([&] {
    ASSERT_TRUE(run_this_thread_on({before.back()}));
    EXPECT_EQ(allowed_cpus(), CpuSet{before.back()});
    EXPECT_EQ(usable_cpus(), 1U);
    EXPECT_TRUE(run_this_thread_on({})) << "an empty set leaves the thread alone";
    EXPECT_EQ(allowed_cpus(), CpuSet{before.back()});
  }).join();
  EXPECT_EQ(allowed_cpus(), before);
}

TEST(RunOn, SaysWhenTheKernelRefuses) {
  std::thread([] { EXPECT_FALSE(run_this_thread_on({4000})); }).join();
}

TEST(NumaNode, IsZeroForACpuThatDoesNotExist) {
  EXPECT_EQ(numa_node(4000), 0);
  EXPECT_GE(numa_node(allowed_cpus().front()), 0);
}

}  // namespace
}  // namespace ferry
