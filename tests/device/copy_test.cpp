// Copies by one thread and by groups of emulated lanes, whatever the addresses have in common.
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <ferry/device/copy.hpp>

#include "devices/cpu/lanes.hpp"
#include "support/depth.hpp"
#include "support/files.hpp"

namespace ferry::device {
namespace {

constexpr std::size_t room = 6000;

struct Ranges {
  std::size_t to;
  std::size_t from;
  std::size_t bytes;
};

Ranges choose(test::Random& random) {
  const std::size_t bytes = random.one_in(3) ? random.below(80) : random.below(room - 200);
  return {random.below(64), random.below(64), bytes};
}

// Copies `ranges` with `copy(target, source, bytes)` and says what is wrong, if anything.
template <class Copy>
std::string outcome(const Ranges& ranges, std::uint64_t seed, Copy copy) {
  const std::string source = test::pattern(room, seed);
  std::string target(room, '-');
  std::string wanted = target;
  wanted.replace(ranges.to, ranges.bytes, source, ranges.from, ranges.bytes);
  copy(target.data() + ranges.to, source.data() + ranges.from, ranges.bytes);
  if (target == wanted) return "";
  return "to " + std::to_string(ranges.to) + " from " + std::to_string(ranges.from) + ": " +
         std::to_string(ranges.bytes) + " bytes";
}

TEST(Copies, OfOneThreadAreExact) {
  test::Random random;
  for (std::uint64_t i = 0; i < test::scaled(3000); ++i) {
    const Ranges ranges = choose(random);
    const auto alone = [](char* to, const char* from, std::size_t bytes) {
      detail::copy_shared_out(ThreadGroup{}, reinterpret_cast<unsigned char*>(to),
                              reinterpret_cast<const unsigned char*>(from), bytes);
    };
    ASSERT_EQ(outcome(ranges, i, alone), "");
    ASSERT_EQ(
        outcome(ranges, i,
                [](char* to, const char* from, std::size_t bytes) { copy_alone(to, from, bytes); }),
        "");
  }
}

TEST(Copies, OfLanesAreExact) {
  test::Random random;
  for (std::uint64_t i = 0; i < test::scaled(60); ++i) {
    const Ranges ranges = choose(random);
    ASSERT_EQ(outcome(ranges, i,
                      [](char* to, const char* from, std::size_t bytes) {
                        cpu::run_lanes(
                            8, [&](cpu::LaneGroup group) { copy_bytes(group, to, from, bytes); });
                      }),
              "");
  }
}

}  // namespace
}  // namespace ferry::device
