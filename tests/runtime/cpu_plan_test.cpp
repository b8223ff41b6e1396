#include "runtime/cpu_plan.hpp"

#include <cerrno>
#include <numeric>
#include <string>

#include <gtest/gtest.h>

namespace ferry {
namespace {

CpuSet cpus(int count) {
  CpuSet all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

CpuPlan plan(const RuntimeOptions& options, int count) {
  return plan_cpus(options, cpus(count), static_cast<unsigned>(count));
}

TEST(CpuPlan, OneCpuIsSharedAndNobodySpins) {
  const CpuPlan made = plan({}, 1);
  EXPECT_EQ(made.device_cpus, CpuSet{0});
  EXPECT_EQ(made.server_cpus, CpuSet{0});
  EXPECT_EQ(made.device_threads, 1U);
  EXPECT_EQ(made.server_threads, 1U);
  EXPECT_FALSE(made.device_may_spin);
  EXPECT_FALSE(made.server_may_spin);
}

TEST(CpuPlan, TwoCpusAreOneEach) {
  const CpuPlan made = plan({}, 2);
  EXPECT_EQ(made.device_cpus, CpuSet{0});
  EXPECT_EQ(made.server_cpus, CpuSet{1});
  EXPECT_EQ(made.device_threads, 1U);
  EXPECT_EQ(made.server_threads, 1U);
  EXPECT_TRUE(made.device_may_spin);
  EXPECT_TRUE(made.server_may_spin);
}

TEST(CpuPlan, EightCpusAreSevenAndOne) {
  const CpuPlan made = plan({}, 8);
  EXPECT_EQ(made.device_cpus, cpus(7));
  EXPECT_EQ(made.server_cpus, CpuSet{7});
  EXPECT_EQ(made.device_threads, 7U);
  EXPECT_EQ(made.server_threads, 1U);
  EXPECT_TRUE(made.device_may_spin);
  EXPECT_TRUE(made.server_may_spin);
}

TEST(CpuPlan, SixtyFourCpusHaveAServerThreadPerEightOfTheDevice) {
  const CpuPlan made = plan({}, 64);
  EXPECT_EQ(made.server_threads, 7U);
  EXPECT_EQ(made.server_cpus.size(), 7U);
  EXPECT_EQ(made.device_threads, 57U);
  EXPECT_TRUE(made.device_may_spin);
  EXPECT_TRUE(made.server_may_spin);
}

TEST(CpuPlan, TheDeviceKeepsACpuHoweverManyServerThreadsAreAskedFor) {
  RuntimeOptions options;
  options.server_threads = 5;
  const CpuPlan made = plan(options, 2);
  EXPECT_EQ(made.device_cpus, CpuSet{0});
  EXPECT_EQ(made.server_cpus, CpuSet{1});
  EXPECT_EQ(made.server_threads, 5U);
  EXPECT_TRUE(made.device_may_spin);
  EXPECT_FALSE(made.server_may_spin);
}

TEST(CpuPlan, MoreDeviceThreadsThanCpusDoNotSpin) {
  RuntimeOptions options;
  options.device_threads = 3;
  const CpuPlan made = plan(options, 2);
  EXPECT_EQ(made.device_threads, 3U);
  EXPECT_FALSE(made.device_may_spin);
  EXPECT_TRUE(made.server_may_spin);
}

TEST(CpuPlan, AQuotaBelowTheMaskStopsTheSpinning) {
  const CpuPlan made = plan_cpus({}, cpus(8), 4);
  EXPECT_EQ(made.device_threads, 7U);
  EXPECT_FALSE(made.device_may_spin);
  EXPECT_FALSE(made.server_may_spin);
}

TEST(CpuPlan, AQuotaThatCoversTheThreadsDoesNot) {
  RuntimeOptions options;
  options.device_threads = 3;
  const CpuPlan made = plan_cpus(options, cpus(8), 4);
  EXPECT_TRUE(made.device_may_spin);
  EXPECT_TRUE(made.server_may_spin);
}

TEST(CpuPlan, TakesTheUsersChoice) {
  RuntimeOptions options;
  options.device_cpus = "4-6";
  options.server_cpus = "1";
  const CpuPlan made = plan(options, 8);
  EXPECT_EQ(made.device_cpus, (CpuSet{4, 5, 6}));
  EXPECT_EQ(made.server_cpus, (CpuSet{1}));
  EXPECT_EQ(made.device_threads, 3U);
  EXPECT_TRUE(made.device_may_spin);
}

TEST(CpuPlan, PutsTheServerBesideTheUsersDevice) {
  RuntimeOptions options;
  options.device_cpus = "6-7";
  EXPECT_EQ(plan(options, 8).server_cpus, CpuSet{5});
}

TEST(CpuPlan, PutsTheDeviceBesideTheUsersServer) {
  RuntimeOptions options;
  options.server_cpus = "0";
  EXPECT_EQ(plan(options, 4).device_cpus, (CpuSet{1, 2, 3}));
}

TEST(CpuPlan, TheSameCpusForBothAreSharedWithoutSpinning) {
  RuntimeOptions options;
  options.device_cpus = "0-1";
  options.server_cpus = "1-2";
  const CpuPlan made = plan(options, 4);
  EXPECT_FALSE(made.device_may_spin);
  EXPECT_FALSE(made.server_may_spin);
}

TEST(CpuPlan, ADeviceOnEveryCpuSharesWithTheServer) {
  RuntimeOptions options;
  options.device_cpus = "0-3";
  const CpuPlan made = plan(options, 4);
  EXPECT_FALSE(made.server_cpus.empty());
  EXPECT_FALSE(made.device_may_spin);
  EXPECT_FALSE(made.server_may_spin);
}

RuntimeOptions with_services(unsigned count) {
  RuntimeOptions options;
  options.cache_bytes = 1 << 20;
  options.service_threads = count;
  return options;
}

TEST(CpuPlan, ServicesAreTakenFromTheDevice) {
  const CpuPlan made = plan(with_services(2), 8);
  EXPECT_EQ(made.device_cpus, cpus(5));
  EXPECT_EQ(made.service_cpus, (CpuSet{5, 6}));
  EXPECT_EQ(made.server_cpus, CpuSet{7});
  EXPECT_EQ(made.device_threads, 5U);
  EXPECT_EQ(made.service_threads, 2U);
  EXPECT_TRUE(made.device_may_spin);
  EXPECT_TRUE(made.server_may_spin);
}

TEST(CpuPlan, ServicesWithoutACpuOfTheirOwnShareWithTheDevice) {
  const CpuPlan made = plan(with_services(1), 2);
  EXPECT_EQ(made.device_cpus, CpuSet{0});
  EXPECT_EQ(made.service_cpus, CpuSet{0});
  EXPECT_EQ(made.service_threads, 1U);
  EXPECT_FALSE(made.device_may_spin);
  EXPECT_FALSE(made.server_may_spin);
}

TEST(CpuPlan, NamedCpusMustSufficeForTheServices) {
  RuntimeOptions options = with_services(2);
  options.device_cpus = "0-2";
  EXPECT_EQ(plan(options, 4).service_cpus, (CpuSet{1, 2}));
  EXPECT_EQ(plan(options, 4).device_threads, 1U);
  options.service_threads = 3;
  try {
    plan(options, 4);
    ADD_FAILURE() << "three of three were set aside";
  } catch (const Error& error) {
    EXPECT_EQ(error.code().value(), EINVAL);
    EXPECT_NE(std::string(error.what()).find("service_threads"), std::string::npos);
  }
}

TEST(CpuPlan, WithoutACacheNothingIsSetAside) {
  RuntimeOptions options = with_services(2);
  options.cache_bytes = 0;
  EXPECT_EQ(plan(options, 8).service_threads, 0U);
  EXPECT_EQ(plan(options, 8).device_cpus, cpus(7));
}

TEST(CpuPlan, ServesMasksWithHoles) {
  const CpuPlan made = plan_cpus({}, {3, 7, 11}, 3);
  EXPECT_EQ(made.device_cpus, (CpuSet{3, 7}));
  EXPECT_EQ(made.server_cpus, CpuSet{11});
}

TEST(CpuPlan, RefusesWhatItMayNotUse) {
  for (const char* text : {"2", "0-2", "nonsense", "1-0", "-1"}) {
    for (const bool server : {false, true}) {
      RuntimeOptions options;
      (server ? options.server_cpus : options.device_cpus) = text;
      try {
        plan(options, 2);
        ADD_FAILURE() << '\'' << text << "' was accepted";
      } catch (const Error& error) {
        EXPECT_EQ(error.code().value(), EINVAL);
        const std::string said = error.what();
        EXPECT_NE(said.find(server ? "server_cpus" : "device_cpus"), std::string::npos) << said;
      }
    }
  }
}

}  // namespace
}  // namespace ferry
