// The checks find illegal histories and accept legal ones. The fast check of registers agrees with
// a search of all orders.
#include "histories/checks.hpp"

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "support/depth.hpp"

namespace ferry::histories {
namespace {

// ---- a register --------------------------------------------------------------------------------

// Tries all orders that agree with real time: Wing and Gong, Testing and Verifying Concurrent
// Objects, J. Parallel Distrib. Comput. 17, 1993; remembers what it has tried, as Lowe, Testing for
// Linearizability, Concurrency Computat. 29(4), 2017.
class Search {
 public:
  explicit Search(const std::vector<RegisterCall>& calls) : calls_(calls) {}
  bool finds_an_order() { return from(0, 0); }

 private:
  bool from(unsigned made, unsigned value) {
    if (made == (1U << calls_.size()) - 1) return true;
    if (!tried_.insert({made, value}).second) return false;
    Time first_end = never;
    for (std::size_t i = 0; i < calls_.size(); ++i)
      if ((made >> i & 1) == 0) first_end = std::min(first_end, calls_[i].ended);
    for (std::size_t i = 0; i < calls_.size(); ++i) {
      const RegisterCall& call = calls_[i];
      const bool is_next = (made >> i & 1) == 0 && call.began <= first_end;
      if (!is_next || (call.is_read && call.value != value)) continue;
      if (from(made | 1U << i, call.value)) return true;
    }
    return false;
  }

  const std::vector<RegisterCall>& calls_;
  std::set<std::pair<unsigned, unsigned>> tried_;
};

TEST(RegisterCheck, AgreesWithASearchOfAllOrders) {
  test::Random random;
  unsigned legal = 0;
  unsigned illegal = 0;
  for (std::uint64_t round = 0; round < test::scaled(40'000); ++round) {
    std::vector<RegisterCall> calls;
    const auto writes = static_cast<unsigned>(random.between(1, 4));
    const std::uint64_t count = random.between(writes, 9);
    const std::uint64_t longest = random.between(1, 12);
    for (unsigned i = 0; i < count; ++i) {
      const Time began = random.between(1, 20);
      const bool is_read = i >= writes;
      const auto value = static_cast<unsigned>(is_read ? random.between(0, writes) : i + 1);
      calls.push_back({is_read, value, began, began + random.below(longest)});
    }
    const bool found = Search(calls).finds_an_order();
    ++(found ? legal : illegal);
    ASSERT_EQ(is_linearisable(calls), found) << "round " << round;
  }
  EXPECT_GT(legal, 0U);
  EXPECT_GT(illegal, 0U);
}

TEST(RegisterCheck, FindsIllegalHistories) {
  constexpr bool read = true;
  constexpr bool write = false;
  EXPECT_TRUE(is_linearisable({}));
  EXPECT_TRUE(is_linearisable({{write, 1, 10, 20}, {read, 0, 12, 14}, {read, 1, 15, 16}}));
  EXPECT_FALSE(is_linearisable({{read, 1, 10, 20}})) << "never written";
  EXPECT_FALSE(is_linearisable({{read, 1, 10, 20}, {write, 1, 30, 40}})) << "written later";
  EXPECT_FALSE(is_linearisable({{write, 1, 10, 20}, {read, 0, 30, 40}})) << "lost";
  EXPECT_FALSE(is_linearisable({{write, 1, 10, 50}, {read, 1, 20, 22}, {read, 0, 24, 26}}))
      << "new, then old";
  EXPECT_FALSE(is_linearisable(
      {{write, 1, 10, 20}, {write, 2, 30, 40}, {read, 2, 50, 51}, {read, 1, 60, 61}}))
      << "stale";
  EXPECT_FALSE(is_linearisable({{write, 1, 10, 20},
                                {write, 2, 10, 20},
                                {read, 1, 30, 31},
                                {read, 2, 40, 41},
                                {read, 1, 50, 51}}))
      << "there and back";
}

// ---- close-to-open -----------------------------------------------------------------------------

// One byte at 0, which two devices (domains 1 and 2) and plain calls (0) use.
class CloseToOpen : public testing::Test {
 protected:
  // Returns the transfer, to say when it is published.
  FileTransfer& write(unsigned domain, unsigned value, Time began, Time ended) {
    history_.push_back({.is_read = false,
                        .client = domain,
                        .domain = domain,
                        .offset = 0,
                        .bytes = 1,
                        .value = value,
                        .began = began,
                        .ended = ended,
                        .published = domain == 0 ? ended : never});
    return history_.back();
  }
  void read(unsigned domain, unsigned char value, Time began, Time ended, Time opened = 0) {
    static constexpr unsigned char bytes[] = {0, 1, 2, 3};
    history_.push_back({.is_read = true,
                        .client = domain,
                        .domain = domain,
                        .offset = 0,
                        .bytes = 1,
                        .found = &bytes[value],
                        .began = began,
                        .ended = ended,
                        .opened = domain == 0 ? began : opened});
  }
  bool is_legal() const { return check_close_to_open(history_).empty(); }

 private:
  std::vector<FileTransfer> history_;
};

TEST_F(CloseToOpen, LetsACacheKeepWhatItsHandleFound) {
  write(0, 1, 10, 20);
  read(1, 0, 30, 31, 5);
  EXPECT_TRUE(is_legal());
}
TEST_F(CloseToOpen, FindsAnOpenThatSeesOldBytes) {
  write(0, 1, 10, 20);
  read(1, 0, 30, 31, 25);
  EXPECT_FALSE(is_legal());
}
TEST_F(CloseToOpen, LetsBytesStayInACacheUntilTheyArePublished) {
  write(1, 1, 10, 20).published = 40;
  read(0, 0, 30, 31);
  read(0, 1, 50, 51);
  EXPECT_TRUE(is_legal());
}
TEST_F(CloseToOpen, FindsWhatAFlushDidNotWrite) {
  write(1, 1, 10, 20).published = 40;
  read(0, 0, 50, 51);
  EXPECT_FALSE(is_legal());
}
TEST_F(CloseToOpen, LetsALateWriteBackReplaceAnothersWrite) {
  write(1, 1, 10, 20).published = 60;
  write(0, 2, 30, 40);
  read(0, 1, 70, 71);
  EXPECT_TRUE(is_legal());
}
TEST_F(CloseToOpen, FindsAWriteBackOfWhatWasWrittenBackBefore) {
  write(1, 1, 10, 20).published = 25;
  write(0, 2, 30, 40);
  read(0, 1, 70, 71);
  EXPECT_FALSE(is_legal());
}
TEST_F(CloseToOpen, FindsAStaleReadInsideADomain) {
  write(1, 1, 10, 20);
  read(1, 0, 30, 31);
  EXPECT_FALSE(is_legal());
}
TEST_F(CloseToOpen, FindsABytePutThereByNoWrite) {
  write(1, 1, 10, 20);
  read(1, 3, 30, 31);
  EXPECT_FALSE(is_legal());
}
TEST_F(CloseToOpen, FindsAByteBeforeItsWrite) {
  read(1, 1, 5, 6);
  write(2, 1, 10, 20);
  EXPECT_FALSE(is_legal());
}
TEST_F(CloseToOpen, FindsWhatACutHasRemoved) {
  write(1, 1, 10, 20);
  write(1, 0, 30, 40);
  read(1, 1, 50, 51);
  EXPECT_FALSE(is_legal());
}
TEST_F(CloseToOpen, FindsZerosOfNoCutThatIsStillThere) {
  write(1, 0, 10, 20);
  write(1, 1, 30, 40);
  read(1, 0, 50, 51);
  EXPECT_FALSE(is_legal());
  write(1, 0, 45, 60);
  EXPECT_TRUE(is_legal());
}

// Bytes are looked at one by one, with the transfers that cover them.
TEST(TransferChecks, NameTheBytesThatAreWrong) {
  const unsigned char torn[] = {1, 1, 0, 0, 1, 1};
  const std::vector<FileTransfer> history = {{.is_read = false,
                                              .client = 0,
                                              .domain = 0,
                                              .offset = 0,
                                              .bytes = 6,
                                              .value = 1,
                                              .began = 10,
                                              .ended = 20},
                                             {.is_read = true,
                                              .client = 1,
                                              .domain = 0,
                                              .offset = 0,
                                              .bytes = 6,
                                              .found = torn,
                                              .began = 30,
                                              .ended = 40}};
  EXPECT_EQ(check_linearisable(history).rfind("bytes 2 to 4 ", 0), 0U);
  EXPECT_EQ(check_close_to_open(history).rfind("bytes 2 to 4:", 0), 0U);
}

// ---- sizes -----------------------------------------------------------------------------------

constexpr SizeCall::Does set = SizeCall::Does::set;
constexpr SizeCall::Does grow = SizeCall::Does::grow;
constexpr SizeCall::Does find = SizeCall::Does::find;
constexpr SizeCall::Does find_less = SizeCall::Does::find_less;
constexpr SizeCall::Does find_more = SizeCall::Does::find_more;

bool sizes_are_legal(const std::vector<SizeCall>& calls) {
  return check_sizes(calls, 100).empty();
}

TEST(SizeCheck, AcceptsWhatSomeOrderExplains) {
  EXPECT_TRUE(sizes_are_legal({}));
  EXPECT_TRUE(sizes_are_legal({{0, find, 100, 0, 10, 20}}));
  // Before and behind a truncation that is under way, in this order.
  EXPECT_TRUE(sizes_are_legal(
      {{0, set, 50, 0, 10, 40}, {1, find, 100, 0, 12, 14}, {1, find, 50, 0, 16, 18}}));
  // A write in steps, with a truncation between them.
  EXPECT_TRUE(sizes_are_legal({{0, grow, 300, 100, 10, 60},
                               {1, find, 200, 0, 12, 14},
                               {2, set, 50, 0, 16, 18},
                               {1, find, 50, 0, 20, 22},
                               {1, find_more, 250, 0, 24, 26},
                               {1, find, 300, 0, 70, 80}}));
  EXPECT_TRUE(sizes_are_legal({{0, find_less, 100, 0, 10, 20}, {0, find_more, 100, 0, 30, 40}}));
  // Whichever of two writes was found, the other makes the file longer again.
  EXPECT_TRUE(sizes_are_legal({{0, grow, 300, 100, 10, 60},
                               {1, grow, 300, 200, 11, 61},
                               {2, find, 300, 0, 12, 14},
                               {2, set, 50, 0, 16, 18},
                               {2, find, 300, 0, 70, 80}}));
}
TEST(SizeCheck, FindsIllegalHistories) {
  EXPECT_FALSE(sizes_are_legal({{0, find, 99, 0, 10, 20}})) << "of nobody";
  EXPECT_FALSE(sizes_are_legal({{0, set, 50, 0, 10, 20}, {1, find, 100, 0, 30, 40}})) << "stale";
  EXPECT_FALSE(sizes_are_legal({{1, find_less, 50, 0, 10, 20}, {0, set, 50, 0, 30, 40}}))
      << "early";
  EXPECT_FALSE(sizes_are_legal(
      {{0, set, 50, 0, 10, 40}, {1, find, 50, 0, 12, 14}, {1, find_more, 51, 0, 16, 18}}))
      << "cut, then not";
  EXPECT_FALSE(sizes_are_legal(
      {{0, grow, 300, 100, 10, 40}, {1, find, 200, 0, 12, 14}, {2, find, 150, 0, 16, 18}}))
      << "it shrinks by itself";
  EXPECT_FALSE(sizes_are_legal({{0, grow, 300, 200, 10, 40}, {1, find, 150, 0, 12, 14}}))
      << "not by bytes of this write";
  EXPECT_FALSE(sizes_are_legal({{0, grow, 300, 100, 10, 20}, {1, find_less, 299, 0, 30, 40}}))
      << "a write is lost";
  EXPECT_FALSE(sizes_are_legal({{0, grow, 300, 100, 10, 60},
                                {1, find, 300, 0, 12, 14},
                                {1, set, 50, 0, 16, 18},
                                {1, find, 300, 0, 70, 80}}))
      << "one write makes the file longer twice";
  EXPECT_FALSE(sizes_are_legal({{0, grow, 300, 100, 10, 60},
                                {1, find, 250, 0, 12, 14},
                                {1, set, 50, 0, 16, 18},
                                {1, find, 200, 0, 20, 22},
                                {1, find, 300, 0, 70, 80}}))
      << "it makes it longer by bytes that it has written";
  // Two truncations, which two others find in different orders.
  EXPECT_FALSE(sizes_are_legal({{0, set, 10, 0, 10, 90},
                                {1, set, 20, 0, 10, 90},
                                {2, find, 10, 0, 12, 14},
                                {2, find, 20, 0, 16, 18},
                                {3, find, 20, 0, 92, 94},
                                {3, find, 10, 0, 96, 98}}));
}

// ---- appends -----------------------------------------------------------------------------------

TEST(AppendCheck, FindsIllegalFiles) {
  const std::vector<Appended> records = {
      {0, 1, 100, 10, 20}, {1, 1, 50, 12, 22}, {0, 2, 9, 30, 40}};
  const std::string a = record_contents(0, 1, 100);
  const std::string b = record_contents(1, 1, 50);
  const std::string c = record_contents(0, 2, 9);
  EXPECT_EQ(check_appends(a + b + c, records), "");
  EXPECT_EQ(check_appends(b + a + c, records), "");
  EXPECT_NE(check_appends(a + c + b, records), "") << "not in the order of time";
  EXPECT_NE(check_appends(a + b, records), "") << "lost";
  EXPECT_NE(check_appends(a + b + b + c, records), "") << "twice";
  EXPECT_NE(check_appends(a.substr(0, 60) + b + a.substr(60) + c, records), "") << "in two parts";
  EXPECT_NE(check_appends(a + b.substr(0, 49) + c, records), "") << "short";
  EXPECT_NE(check_appends(a + b + c + "x", records), "") << "a byte of nobody";
  EXPECT_NE(check_appends(a + b + record_contents(2, 1, 9) + c, records), "") << "of nobody";
  EXPECT_NE(check_appends(a + b + std::string(9, '\0') + c, records), "") << "a hole";
}

}  // namespace
}  // namespace ferry::histories
