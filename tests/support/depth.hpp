// The amount of randomised and repeated testing: FERRY_TEST_DEPTH is quick, default or deep, and
// FERRY_TEST_SEED repeats a failed run. Only this file reads them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <random>
#include <string_view>

namespace ferry::test {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool sanitized = true;
#else
inline constexpr bool sanitized = false;
#endif

inline std::string_view test_depth() {
  const char* text = std::getenv("FERRY_TEST_DEPTH");
  return text != nullptr ? text : "default";
}

inline bool is_deep() {
  return test_depth() == "deep";
}

// Scales `times`, which is for a release build at default depth.
inline std::uint64_t scaled(std::uint64_t times) {
  if (test_depth() == "quick") times /= 8;
  if (is_deep()) times *= 20;
  if (sanitized) times /= 10;
  return std::max<std::uint64_t>(times, 1);
}

// Random numbers of one test; prints how to reproduce them.
class Random {
 public:
  Random() : Random(choose_seed()) {}
  explicit Random(std::uint64_t seed) : generator_(seed) {}

  std::uint64_t bits() { return generator_(); }
  // From 0 to count - 1.
  std::uint64_t below(std::uint64_t count) {
    return std::uniform_int_distribution<std::uint64_t>(0, count - 1)(generator_);
  }
  // From first to last, both included.
  std::uint64_t between(std::uint64_t first, std::uint64_t last) {
    return std::uniform_int_distribution<std::uint64_t>(first, last)(generator_);
  }
  bool one_in(std::uint64_t count) { return below(count) == 0; }
  template <class Container>
  void shuffle(Container& container) {
    std::shuffle(container.begin(), container.end(), generator_);
  }
  template <class Container>
  const auto& pick(const Container& container) {
    return container[below(std::size(container))];
  }
  // Another stream, for another thread.
  Random fork() { return Random(bits()); }

 private:
  static std::uint64_t choose_seed() {
    const char* text = std::getenv("FERRY_TEST_SEED");
    const std::uint64_t seed =
        text != nullptr ? std::strtoull(text, nullptr, 10) : std::random_device{}();
    std::cout << "[   SEED   ] FERRY_TEST_SEED=" << seed << '\n' << std::flush;
    return seed;
  }
  std::mt19937_64 generator_;
};

}  // namespace ferry::test
