#include "base/byte_swap.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include <gtest/gtest.h>

#include <ferry/byte_order.hpp>
#include <ferry/error.hpp>

#include "support/depth.hpp"
#include "support/files.hpp"

namespace ferry {
namespace {

using test::pattern;
using test::same_bytes;

constexpr std::size_t sizes[] = {2, 4, 8, 16};

// Byte by byte, independent of the code under test.
std::string swapped(const std::string& data, std::size_t element_bytes) {
  std::string result = data;
  for (std::size_t at = 0; at < data.size(); at += element_bytes)
    std::reverse(result.begin() + static_cast<std::ptrdiff_t>(at),
                 result.begin() + static_cast<std::ptrdiff_t>(at + element_bytes));
  return result;
}

std::byte* bytes_at(std::string& text, std::size_t offset) {
  return reinterpret_cast<std::byte*>(text.data() + offset);
}

TEST(ByteSwap, EveryWayAtEveryAlignmentAndTail) {
  constexpr std::size_t guard = 40;
  for (const NamedByteSwap& way : byte_swaps()) {
    SCOPED_TRACE(way.name);
    for (const std::size_t element : sizes) {
      for (std::size_t count = 0; count * element <= 300; ++count) {
        const std::size_t bytes = count * element;
        const std::string wanted = swapped(pattern(bytes, count), element);
        for (std::size_t shift = 0; shift < 32; ++shift) {
          std::string from = std::string(shift, '<') + pattern(bytes, count);
          const std::string before = from;
          std::string to(31 - shift + bytes + guard, '#');
          way.swap(bytes_at(to, 31 - shift), bytes_at(from, shift), bytes, element);
          ASSERT_EQ(to.substr(31 - shift, bytes), wanted);
          ASSERT_EQ(to.substr(0, 31 - shift), std::string(31 - shift, '#'));
          ASSERT_EQ(to.substr(31 - shift + bytes), std::string(guard, '#'));
          ASSERT_EQ(from, before);
          way.swap(bytes_at(from, shift), bytes_at(from, shift), bytes, element);
          ASSERT_EQ(from.substr(shift), wanted);
        }
      }
    }
  }
}

TEST(ByteSwap, LargeOnes) {
  test::Random random;
  for (const NamedByteSwap& way : byte_swaps()) {
    for (const std::size_t element : sizes) {
      const std::string data = pattern(element * (10'000 + random.below(10'000)), random.bits());
      std::string to(data.size(), '\0');
      way.swap(bytes_at(to, 0), reinterpret_cast<const std::byte*>(data.data()), data.size(),
               element);
      EXPECT_TRUE(same_bytes(to, swapped(data, element))) << way.name << ' ' << element;
    }
  }
}

TEST(ByteSwap, ThePlainOneIsAlwaysThere) {
  ASSERT_FALSE(byte_swaps().empty());
  EXPECT_STREQ(byte_swaps().front().name, "plain");
}

TEST(ByteOrder, SwapsInPlaceAndWhileCopying) {
  std::string data = "abcdefgh";
  swap_bytes(data.data(), 8, 4);
  EXPECT_EQ(data, "dcbahgfe");
  std::string copy(8, '\0');
  copy_swapped(copy.data(), data.data(), 8, 2);
  EXPECT_EQ(copy, "cdabghef");
  EXPECT_EQ(data, "dcbahgfe");
  copy_swapped(copy.data(), data.data(), 8, 1);
  EXPECT_EQ(copy, data);
  swap_bytes(nullptr, 0, 8);
}

TEST(ByteOrder, RefusesWhatDoesNotFit) {
  std::string data = "abcdefghijklmnopqrstuvwxyzabcdef";
  for (const auto& [bytes, element] : {std::pair{7, 2}, {8, 3}, {8, 0}, {32, 32}, {8, 16}}) {
    try {
      swap_bytes(data.data(), static_cast<std::size_t>(bytes), static_cast<std::size_t>(element));
      ADD_FAILURE() << bytes << ' ' << element;
    } catch (const Error& error) {
      EXPECT_EQ(error.code().value(), EINVAL);
    }
  }
  EXPECT_EQ(data, "abcdefghijklmnopqrstuvwxyzabcdef");
}

TEST(ByteOrder, OneOfTheTwoIsForeign) {
  EXPECT_FALSE(is_foreign(ByteOrder::native));
  EXPECT_NE(is_foreign(ByteOrder::little), is_foreign(ByteOrder::big));
  const std::uint32_t one = 1;
  char first = 0;
  std::memcpy(&first, &one, 1);
  EXPECT_EQ(is_foreign(ByteOrder::big), first == 1);
}

}  // namespace
}  // namespace ferry
