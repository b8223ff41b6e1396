// A short load, and that its checks find what they are for. With options it is a load of any
// length: see tests/load/run.
#include "load/load.hpp"

#include <cstdlib>
#include <iostream>
#include <span>
#include <string>
#include <string_view>

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "load/calls.hpp"
#include "load/model.hpp"
#include "load/resources.hpp"
#include "support/depth.hpp"

namespace ferry::load {
namespace {

LoadOptions short_load(test::Random& random) {
  LoadOptions options;
  options.seed = random.bits();
  options.steps = 100;
  if (test::sanitized) {
    options.callers = 8;
    options.steps = 40;
  }
  return options;
}

TEST(ShortLoad, IsRightAndFlatAndInTime) {
  test::Random random;
  const LoadReport report = run_load(short_load(random));
  std::cout << report.text;
  for (const std::string& line : report.problems)
    ADD_FAILURE() << line;
  for (const std::string& line : report.growth)
    ADD_FAILURE() << line;
}

struct SeededLeak {
  const char* name;
  Leak leak;
  const char* found;
};
class LoadLeaks : public testing::TestWithParam<SeededLeak> {};

TEST_P(LoadLeaks, AreFound) {
  if (GetParam().leak == Leak::memory && test::sanitized)
    GTEST_SKIP() << "a sanitizer's memory grows by itself";
  test::Random random;
  LoadOptions options = short_load(random);
  options.leak = GetParam().leak;
  options.longest_hang = std::chrono::milliseconds(50);
  const LoadReport report = run_load(options);
  EXPECT_EQ(report.problems.size(), 0U) << report.problems.front();
  ASSERT_GE(report.growth.size(), 1U) << report.text;
  for (const std::string& line : report.growth)
    EXPECT_NE(line.find(GetParam().found), std::string::npos) << line;
}
INSTANTIATE_TEST_SUITE_P(, LoadLeaks,
                         testing::Values(SeededLeak{"Descriptors", Leak::descriptors,
                                                    "descriptors"},
                                         SeededLeak{"Threads", Leak::threads, "threads"},
                                         SeededLeak{"Memory", Leak::memory, "bytes"}),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(LoadGrowth, IsWhatThereIsMoreOfThanAllowed) {
  const Holdings usual{20, 10, 100 << 20, 50 << 20};
  Holdings more = usual;
  EXPECT_TRUE(growth({usual, usual, more}, 2).empty());
  more.descriptors += 4;
  more.threads += 24;
  more.resident_bytes += 12 << 20;
  more.heap_bytes += 2 << 20;
  EXPECT_TRUE(growth({usual, usual, more}, 2).empty());
  EXPECT_TRUE(growth({more, usual, more}, 2).empty());
  for (std::uint64_t Holdings::*one : {&Holdings::descriptors, &Holdings::threads}) {
    Holdings leaking = more;
    ++(leaking.*one);
    EXPECT_EQ(growth({usual, usual, leaking}, 2).size(), 1U);
  }
  for (std::uint64_t Holdings::*one : {&Holdings::resident_bytes, &Holdings::heap_bytes}) {
    Holdings leaking = more;
    leaking.*one += 2 << 20;
    EXPECT_EQ(growth({usual, usual, leaking}, 2).size(), 1U);
  }
}

TEST(LoadLatencies, ACallBeyondItsBoundIsNamed) {
  const std::vector<LoadPlace> places{{"slow", "", "", "", std::chrono::seconds(1), "its timeout"}};
  Latencies latencies(places, scheduling_bound(16, 2));
  const auto bound = static_cast<std::uint64_t>(latencies.bound_of(0, LoadCall::read).count());
  latencies.note(0, LoadCall::read, bound, true);
  EXPECT_TRUE(latencies.beyond_bounds().empty());
  latencies.note(0, LoadCall::read, bound + 1'000'000, true);
  ASSERT_EQ(latencies.beyond_bounds().size(), 1U);
  EXPECT_NE(latencies.beyond_bounds().front().find("its timeout"), std::string::npos);
}

TEST(LoadModel, AFailedWriteLeavesOldOrNewBytes) {
  OwnedPiece piece;
  std::vector<unsigned char> bytes(OwnedPiece::bytes);
  EXPECT_TRUE(piece.allows(bytes)) << "a hole";
  const auto holds = [&](std::uint64_t key) {
    fill(bytes, key);
    return piece.allows(bytes);
  };
  piece.wrote(1, true);
  EXPECT_TRUE(holds(1));
  EXPECT_FALSE(holds(hole));
  piece.secure();
  piece.wrote(2, true);
  EXPECT_FALSE(holds(1));
  piece.wrote(3, false);
  EXPECT_TRUE(holds(2));
  EXPECT_TRUE(holds(3));
  fill(std::span(bytes).first(700), 2);
  EXPECT_TRUE(piece.allows(bytes)) << "a part of each";
  fill(std::span(bytes).first(700), 1);
  EXPECT_FALSE(piece.allows(bytes));
  piece.lose();
  EXPECT_TRUE(piece.allows(bytes)) << "what was secured is the least";
  EXPECT_FALSE(holds(hole));
}

TEST(LoadModel, AFileOfItsOwnIsKnownByteByByte) {
  OwnFile file;
  file.is_new();
  file.append(5, 100);
  file.truncate(60);
  file.truncate(90);
  file.append(7, 10);
  ASSERT_EQ(file.size(), 100U);
  std::vector<unsigned char> bytes(100);
  fill(std::span(bytes).first(60), 5);
  fill(std::span(bytes).last(10), 7);
  EXPECT_TRUE(file.holds(bytes, 0));
  EXPECT_TRUE(file.holds(Bytes(bytes).subspan(50, 45), 50));
  EXPECT_FALSE(file.holds(Bytes(bytes).first(45), 50));
  bytes[75] = 1;
  EXPECT_FALSE(file.holds(bytes, 0));
  EXPECT_FALSE(file.holds(bytes, 1)) << "beyond its end";
}

// ---- a long load

[[noreturn]] void refuse(const std::string& what) {
  std::cerr << "load_tests: " << what << "; tests/load/run --help explains\n";
  std::exit(2);
}

int run_long(std::span<char*> arguments) {
  LoadOptions options;
  options.says_progress = true;
  options.longest_hang = std::chrono::seconds(30);
  options.local_bound = std::chrono::seconds(2);
  options.pause = std::chrono::seconds(5);
  options.bulk_callers = 16;
  options.seed = std::random_device{}();
  for (std::size_t i = 0; i < arguments.size(); i += 2) {
    const std::string_view name = arguments[i];
    if (i + 1 == arguments.size()) refuse(std::string(name) + " takes a value");
    const char* value = arguments[i + 1];
    const std::uint64_t number = std::strtoull(value, nullptr, 10);
    if (name == "--seconds") {
      options.time = std::chrono::seconds(number);
    } else if (name == "--callers") {
      options.callers = static_cast<unsigned>(number);
    } else if (name == "--bulk-callers") {
      options.bulk_callers = static_cast<unsigned>(number);
    } else if (name == "--seed") {
      options.seed = number;
    } else if (name == "--trouble") {
      options.trouble = value;
    } else {
      refuse("no option " + std::string(name));
    }
  }
  if (options.callers == 0) refuse("--callers takes a number from 1 up");
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  std::cout << "seed " << options.seed << std::endl;
  const LoadReport report = run_load(options);
  std::cout << report.text;
  for (const std::string& line : report.problems)
    std::cout << "PROBLEM: " << line << '\n';
  for (const std::string& line : report.growth)
    std::cout << "NOT FLAT: " << line << '\n';
  return report.problems.empty() && report.growth.empty() ? 0 : 1;
}

}  // namespace
}  // namespace ferry::load

int main(int count, char** arguments) {
  testing::InitGoogleTest(&count, arguments);
  if (count > 1) return ferry::load::run_long({arguments + 1, static_cast<std::size_t>(count) - 1});
  return RUN_ALL_TESTS();
}
