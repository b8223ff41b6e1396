// Copies by one thread and by a group's lanes, for any alignment of the addresses. Also in kernels,
// by tests/cuda/device_tests.cu.
#include <cstdint>

#include <gtest/gtest.h>

#include <ferry/device/copy.hpp>

#include "support/depth.hpp"
#include "support/programs.hpp"

namespace ferry::device {
namespace {

constexpr std::uint64_t room = 6000;
constexpr std::uint64_t skews = 16;  // what two addresses can differ by, seen from a word's size

enum class Way : std::uint32_t { by_the_group, by_the_leader, in_words };

// Each group copies between two areas of its own, `count` times from another pair of addresses.
struct CopyRanges {
  unsigned char* sources;
  unsigned char* targets;
  std::uint64_t seed;
  std::uint64_t count;
  Way way;
  test::Checks checks;

  template <class Group>
  FERRY_DEVICE void operator()(Group group, std::uint32_t index) const {
    unsigned char* source = sources + index * room;
    unsigned char* target = targets + index * room;
    test::DeviceRandom random(seed + index);
    for (std::uint64_t at = group.lane(); at < room; at += group.size())
      source[at] = test::byte_of(seed, at);
    for (std::uint64_t i = 0; i < count; ++i) {
      // All pairs of skews by turns, and 64 bytes of each for good measure.
      const std::uint64_t to = i % skews + 16 * random.below(4);
      const std::uint64_t from = i / skews % skews + 16 * random.below(4);
      const std::uint64_t bytes = random.one_in(3) ? random.below(80) : random.below(room - 200);
      for (std::uint64_t at = group.lane(); at < room; at += group.size())
        target[at] = '-';
      group.sync();
      copy(group, target + to, source + from, bytes);
      group.sync();
      for (std::uint64_t at = group.lane(); at < room; at += group.size()) {
        const bool copied = at >= to && at < to + bytes;
        checks.equal(target[at], copied ? test::byte_of(seed, from + at - to) : '-');
      }
      group.sync();
    }
  }

 private:
  template <class Group>
  FERRY_DEVICE void copy(Group group, unsigned char* to, const unsigned char* from,
                         std::uint64_t bytes) const {
    if (way == Way::by_the_group) return copy_bytes(group, to, from, bytes);
    if (way == Way::in_words) return detail::copy_shared_out(group, to, from, bytes);
    if (group.lane() == 0) copy_alone(to, from, bytes);
  }
};

template <class Kind>
class Copies : public testing::Test {
 protected:
  // Fewer with many lanes, because copies cost thread switches; deep runs have all skews.
  static void expect_exact(Way way, std::uint64_t count) {
    constexpr std::uint32_t groups = 3;
    test::Random random;
    const test::SharedArray<unsigned char> sources(groups * room);
    const test::SharedArray<unsigned char> targets(groups * room);
    const test::ProgramReport report;
    test::run_groups<Kind>(groups, CopyRanges{sources.data(), targets.data(), random.bits(), count,
                                              way, report.checks()});
    EXPECT_EQ(report.text(), "");
  }
  static std::uint64_t count() {
    return test::scaled(Kind::lanes == 1 || test::lanes_are_real ? 3000 : 1000 / Kind::lanes);
  }
};
TYPED_TEST_SUITE(Copies, test::EveryKind, test::NameOfKind);

TYPED_TEST(Copies, OfTheGroupAreExact) {
  this->expect_exact(Way::by_the_group, this->count());
}
TYPED_TEST(Copies, OfItsLeaderAreExact) {
  this->expect_exact(Way::by_the_leader, this->count());
}
TYPED_TEST(Copies, InWordsAreExact) {
  this->expect_exact(Way::in_words, this->count());
}

}  // namespace
}  // namespace ferry::device
