// Where calls go: each place once, or as places are drawn.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include "harness/programs.hpp"

namespace ferry::bench {
namespace {

constexpr unsigned places = 10'000;

Cell cell_of(Offsets offsets) {
  Cell cell;
  cell.transfer_bytes = 4096;
  cell.total_bytes = places * cell.transfer_bytes;
  cell.offsets = offsets;
  return cell;
}

// How many calls each place gets.
std::vector<unsigned> calls_by_place(const Cell& cell) {
  std::vector<unsigned> calls(places);
  for (const std::uint32_t place : make_order(cell, 0))
    ++calls.at(place);
  return calls;
}

TEST(Order, GoesToEachPlaceOnceUnlessPlacesAreDrawn) {
  for (const Offsets offsets : {Offsets::sequential, Offsets::random}) {
    const std::vector<std::uint32_t> order = make_order(cell_of(offsets), 0);
    EXPECT_EQ(std::is_sorted(order.begin(), order.end()), offsets == Offsets::sequential);
    EXPECT_EQ(calls_by_place(cell_of(offsets)), std::vector<unsigned>(places, 1));
  }
}

TEST(Order, OfZipfFallsWithThePowerOfTheRank) {
  Cell cell = cell_of(Offsets::zipf);
  for (const double exponent : {0.5, 1.0, 2.0}) {
    cell.zipf_exponent = exponent;
    std::vector<unsigned> calls = calls_by_place(cell);
    EXPECT_FALSE(std::is_sorted(calls.rbegin(), calls.rend()));  // popular places lie anywhere
    std::sort(calls.begin(), calls.end(), std::greater<>());
    double sum = 0;
    for (unsigned rank = 1; rank <= places; ++rank)
      sum += std::pow(rank, -exponent);
    // So many calls that chance is small: the first hundredth and the first tenth.
    for (const unsigned first : {places / 100, places / 10}) {
      double expected = 0;
      for (unsigned rank = 1; rank <= first; ++rank)
        expected += std::pow(rank, -exponent) / sum * places;
      const auto found = std::accumulate(calls.begin(), calls.begin() + first, 0.0);
      EXPECT_GT(found, 0.95 * expected);
      if (exponent >= 1) {
        EXPECT_LT(found, 1.25 * expected);
      }
    }
  }
}

TEST(Order, OfAHotspotGoesToTheFirstPlacesAsOftenAsItShould) {
  Cell cell = cell_of(Offsets::hotspot);
  cell.hot_file_percent = 20;
  for (const unsigned percent : {50U, 80U, 100U}) {
    cell.hot_call_percent = percent;
    const std::vector<unsigned> calls = calls_by_place(cell);
    const auto hot = std::accumulate(calls.begin(), calls.begin() + places / 5, 0.0);
    EXPECT_NEAR(hot / places, percent / 100.0, 0.02);
    EXPECT_LT(*std::max_element(calls.begin(), calls.end()), 25U);  // none of them stands out
  }
}

TEST(Order, IsTheSameEachTimeAndDiffersByThread) {
  Cell cell = cell_of(Offsets::zipf);
  cell.zipf_exponent = 1;
  EXPECT_EQ(make_order(cell, 1), make_order(cell, 1));
  EXPECT_NE(make_order(cell, 1), make_order(cell, 2));
}

TEST(Order, PlacesOfTheFirstCallsAreThoseThatTheyGoTo) {
  Cell cell = cell_of(Offsets::hotspot);
  cell.hot_file_percent = 1;
  cell.hot_call_percent = 90;
  const std::vector<std::uint32_t> order = make_order(cell, 0);
  const std::vector<bool> found = places_of(cell, 0, 500);
  std::vector<bool> expected(places);
  for (unsigned call = 0; call < 500; ++call)
    expected[order[call]] = true;
  EXPECT_EQ(found, expected);
}

}  // namespace
}  // namespace ferry::bench
