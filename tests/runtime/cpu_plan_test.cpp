#include "runtime/cpu_plan.hpp"

#include <cerrno>
#include <numeric>

#include <gtest/gtest.h>

#include "support/error_of.hpp"

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

void expect_cpus(const CpuPlan& made, const CpuSet& device, const CpuSet& server) {
  EXPECT_EQ(made.device_cpus, device);
  EXPECT_EQ(made.server_cpus, server);
}
void expect_threads(const CpuPlan& made, unsigned device, unsigned server) {
  EXPECT_EQ(made.device_threads, device);
  EXPECT_EQ(made.server_threads, server);
}
void expect_spinning(const CpuPlan& made, bool device, bool server) {
  EXPECT_EQ(made.device_may_spin, device);
  EXPECT_EQ(made.server_may_spin, server);
}

TEST(CpuPlan, OneCpuIsSharedAndNobodySpins) {
  const CpuPlan made = plan({}, 1);
  expect_cpus(made, CpuSet{0}, CpuSet{0});
  expect_threads(made, 1, 1);
  expect_spinning(made, false, false);
}

TEST(CpuPlan, TwoCpusAreOneEach) {
  const CpuPlan made = plan({}, 2);
  expect_cpus(made, CpuSet{0}, CpuSet{1});
  expect_threads(made, 1, 1);
  expect_spinning(made, true, true);
}

TEST(CpuPlan, EightCpusAreSevenAndOne) {
  const CpuPlan made = plan({}, 8);
  expect_cpus(made, cpus(7), CpuSet{7});
  expect_threads(made, 7, 1);
  expect_spinning(made, true, true);
}

TEST(CpuPlan, SixtyFourCpusHaveAServerThreadPerEightOfTheDevice) {
  const CpuPlan made = plan({}, 64);
  EXPECT_EQ(made.server_threads, 7U);
  EXPECT_EQ(made.server_cpus.size(), 7U);
  EXPECT_EQ(made.device_threads, 57U);
  expect_spinning(made, true, true);
}

TEST(CpuPlan, ManyDeviceThreadsHaveServerThreadsByTheCpus) {
  RuntimeOptions options;
  options.device_threads = 4096;
  EXPECT_EQ(plan(options, 2).server_threads, 1U);
  EXPECT_EQ(plan(options, 64).server_threads, 8U);
}

TEST(CpuPlan, TheDeviceKeepsACpuHoweverManyServerThreadsAreAskedFor) {
  RuntimeOptions options;
  options.server_threads = 5;
  const CpuPlan made = plan(options, 2);
  expect_cpus(made, CpuSet{0}, CpuSet{1});
  EXPECT_EQ(made.server_threads, 5U);
  expect_spinning(made, true, false);
}

TEST(CpuPlan, MoreDeviceThreadsThanCpusDoNotSpin) {
  RuntimeOptions options;
  options.device_threads = 3;
  const CpuPlan made = plan(options, 2);
  EXPECT_EQ(made.device_threads, 3U);
  expect_spinning(made, false, true);
}

TEST(CpuPlan, AQuotaBelowTheMaskStopsTheSpinning) {
  const CpuPlan made = plan_cpus({}, cpus(8), 4);
  EXPECT_EQ(made.device_threads, 7U);
  expect_spinning(made, false, false);
}

TEST(CpuPlan, AQuotaThatCoversTheThreadsDoesNot) {
  RuntimeOptions options;
  options.device_threads = 3;
  const CpuPlan made = plan_cpus(options, cpus(8), 4);
  expect_spinning(made, true, true);
}

TEST(CpuPlan, TakesTheUsersChoice) {
  RuntimeOptions options;
  options.device_cpus = "4-6";
  options.server_cpus = "1";
  const CpuPlan made = plan(options, 8);
  expect_cpus(made, (CpuSet{4, 5, 6}), (CpuSet{1}));
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
  expect_spinning(made, false, false);
}

TEST(CpuPlan, ADeviceOnEveryCpuSharesWithTheServer) {
  RuntimeOptions options;
  options.device_cpus = "0-3";
  const CpuPlan made = plan(options, 4);
  EXPECT_FALSE(made.server_cpus.empty());
  expect_spinning(made, false, false);
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
  expect_spinning(made, true, true);
}

TEST(CpuPlan, ServicesWithoutACpuOfTheirOwnShareWithTheDevice) {
  const CpuPlan made = plan(with_services(1), 2);
  EXPECT_EQ(made.device_cpus, CpuSet{0});
  EXPECT_EQ(made.service_cpus, CpuSet{0});
  EXPECT_EQ(made.service_threads, 1U);
  expect_spinning(made, false, false);
}

TEST(CpuPlan, NamedCpusMustSufficeForTheServices) {
  RuntimeOptions options = with_services(2);
  options.device_cpus = "0-2";
  EXPECT_EQ(plan(options, 4).service_cpus, (CpuSet{1, 2}));
  EXPECT_EQ(plan(options, 4).device_threads, 1U);
  options.service_threads = 3;
  EXPECT_EQ(test::error_of([&] { plan(options, 4); }, "service_threads"), EINVAL)
      << "three of three were set aside";
}

TEST(CpuPlan, WithoutACacheNothingIsSetAside) {
  RuntimeOptions options = with_services(2);
  options.cache_bytes = 0;
  EXPECT_EQ(plan(options, 8).service_threads, 0U);
  EXPECT_EQ(plan(options, 8).device_cpus, cpus(7));
}

TEST(CpuPlan, ServesMasksWithHoles) {
  const CpuPlan made = plan_cpus({}, {3, 7, 11}, 3);
  expect_cpus(made, (CpuSet{3, 7}), CpuSet{11});
}

TEST(CpuPlan, RefusesWhatItMayNotUse) {
  for (const char* text : {"2", "0-2", "nonsense", "1-0", "-1"}) {
    for (const bool server : {false, true}) {
      RuntimeOptions options;
      (server ? options.server_cpus : options.device_cpus) = text;
      const char* named = server ? "server_cpus" : "device_cpus";
      EXPECT_EQ(test::error_of([&] { plan(options, 2); }, named), EINVAL) << text;
    }
  }
}

}  // namespace
}  // namespace ferry
