// Two things measured in turn, A B B A A B B A ..., so that a machine whose speed drifts is equally
// unkind to both. Results leave as one JSON line for lab/micro/run to judge.
#pragma once

#include <chrono>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace ferry::benchmarks {

using Clock = std::chrono::steady_clock;

// Nanoseconds per call of `work`, called `count` times.
template <class Work>
double nanoseconds_each(long count, Work work) {
  const auto begin = Clock::now();
  for (long i = 0; i < count; ++i)
    work(i);
  const std::chrono::duration<double, std::nano> elapsed = Clock::now() - begin;
  return elapsed.count() / static_cast<double>(count);
}

// Measures whose name does not contain this are left out; programs take it as their last argument.
inline std::string only;
inline bool is_wanted(const std::string& name) {
  return name.find(only) != std::string::npos;
}

// One side of a comparison: a block of work that returns its figure (say, ns per operation).
using Block = std::function<double()>;

// Measures `pairs` pairs (rounded up to an even number) after one unmeasured pair, and the same
// number of A/A pairs, whose spread tells what the machine's noise alone does to a ratio.
inline void measure_pairs(const std::string& name, const std::string& unit, int pairs,
                          const Block& ours, const Block& baseline) {
  if (!is_wanted(name)) return;
  ours();
  baseline();
  nlohmann::json line{{"measure", name}, {"unit", unit}};
  for (int i = 0; i < pairs; i += 2) {
    const double a1 = ours();
    const double b1 = baseline();
    const double b2 = baseline();
    const double a2 = ours();
    line["pairs"].push_back({{"ours", a1}, {"baseline", b1}});
    line["pairs"].push_back({{"ours", a2}, {"baseline", b2}});
  }
  for (int i = 0; i < pairs; ++i) {
    const double first = baseline();
    const double second = baseline();
    line["same"].push_back({{"ours", first}, {"baseline", second}});
  }
  std::cout << line.dump() << std::endl;
}

// A figure without a counterpart, all samples kept.
inline void report_figure(const std::string& name, const std::string& unit,
                          const std::vector<double>& samples) {
  std::cout << nlohmann::json{{"measure", name}, {"unit", unit}, {"samples", samples}}.dump()
            << std::endl;
}

}  // namespace ferry::benchmarks
