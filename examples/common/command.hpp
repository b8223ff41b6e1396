// Shared by the example commands: numeric options, and errors as one line.
#pragma once

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <ferry/error.hpp>

namespace ferry::examples {

using Words = std::vector<std::string>;

// Wrong arguments; the command exits with 2.
struct WrongArguments : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// Removes `option N` from `words`. Throws WrongArguments if it is not from `least` to `most`.
inline std::uint64_t take_number(Words& words, std::string_view option, std::uint64_t otherwise,
                                 std::uint64_t least, std::uint64_t most) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] != option) continue;
    std::uint64_t number = 0;
    bool good = i + 1 < words.size();
    if (good) {
      const char* end = words[i + 1].data() + words[i + 1].size();
      const auto [rest, error] = std::from_chars(words[i + 1].data(), end, number);
      good = error == std::errc() && rest == end && number >= least && number <= most;
    }
    if (!good) {
      throw WrongArguments(std::string(option) + " takes a number from " + std::to_string(least) +
                           " to " + std::to_string(most));
    }
    const auto at = words.begin() + static_cast<std::ptrdiff_t>(i);
    words.erase(at, at + 2);
    return number;
  }
  return otherwise;
}

// Throws if `result` is a negative errno, else returns it.
inline std::int64_t check_call(std::int64_t result, const std::string& what) {
  if (result < 0) throw Error(static_cast<int>(-result), what);
  return result;
}

// Runs `body(words)` and returns the exit status: for exceptions `failure` and one line, 2 for
// WrongArguments.
template <class Body>
int run_command(const char* name, int argc, char** argv, int failure, Body body) {
  try {
    return body(Words(argv + 1, argv + argc));
  } catch (const WrongArguments& error) {
    std::fprintf(stderr, "%s: %s\n", name, error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", name, error.what());
    return failure;
  }
}

}  // namespace ferry::examples
