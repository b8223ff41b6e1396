// Measures two things in turn, A B B A A B B A ..., so that drift affects both alike. Each measure
// is one line of JSON.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>

namespace ferry::benchmarks {

using Clock = std::chrono::steady_clock;

// Measures whose name does not contain `only` are left out.
inline std::string only;
inline int pair_count = 24;

inline bool is_wanted(const std::string& name) {
  return name.find(only) != std::string::npos;
}

// Ends the program.
[[noreturn]] inline void fail(const std::string& message) {
  std::cerr << "ferry-micro: " << message << '\n';
  std::exit(1);
}
// Of a call that moves bytes.
inline void check(std::int64_t got, std::uint64_t wanted) {
  if (got != static_cast<std::int64_t>(wanted)) {
    fail("a call gave " + std::to_string(got) + " instead of " + std::to_string(wanted));
  }
}
// A file's descriptor, or none.
inline int opened(int file, const std::string& path) {
  if (file < 0) fail("cannot open " + path);
  return file;
}

inline double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}
// Seconds until so many threads, the first with number 0, have done `work`.
template <class Work>
double seconds_on_threads(std::uint64_t count, Work work) {
  const auto begin = Clock::now();
  {
    std::vector<std::jthread> threads;
    for (std::uint64_t i = 0; i < count; ++i)
      threads.emplace_back([&work, i] { work(i); });
  }
  return seconds_since(begin);
}
// Nanoseconds per call of `work`, called `count` times.
template <class Work>
double nanoseconds_each(long count, Work work) {
  const auto begin = Clock::now();
  for (long i = 0; i < count; ++i)
    work(i);
  const std::chrono::duration<double, std::nano> elapsed = Clock::now() - begin;
  return elapsed.count() / static_cast<double>(count);
}

inline void print(const nlohmann::json& line) {
  std::cout << line.dump() << std::endl;
}

// One side of a comparison: a block of work that returns its figure (say, ns per operation).
using Block = std::function<double()>;

// Measures `pair_count` pairs (rounded up to an even number) after one unmeasured pair, and the
// same number of A/A pairs, whose spread tells what the machine's noise alone does to a ratio.
inline void measure_pairs(const std::string& name, const std::string& unit, const Block& ours,
                          const Block& baseline) {
  if (!is_wanted(name)) return;
  ours();
  baseline();
  nlohmann::json line{{"measure", name}, {"unit", unit}};
  for (int i = 0; i < pair_count; i += 2) {
    const double a1 = ours();
    const double b1 = baseline();
    const double b2 = baseline();
    const double a2 = ours();
    line["pairs"].push_back({{"ours", a1}, {"baseline", b1}});
    line["pairs"].push_back({{"ours", a2}, {"baseline", b2}});
  }
  for (std::size_t i = 0; i < line["pairs"].size(); ++i) {
    const double first = baseline();
    const double second = baseline();
    line["same"].push_back({{"ours", first}, {"baseline", second}});
  }
  print(line);
}

// A figure without a counterpart, all samples kept.
inline void report_figure(const std::string& name, const std::string& unit,
                          const std::vector<double>& samples) {
  if (is_wanted(name)) print({{"measure", name}, {"unit", unit}, {"samples", samples}});
}

}  // namespace ferry::benchmarks
