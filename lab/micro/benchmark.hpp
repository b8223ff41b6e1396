// What the benchmarks share: measures of two things in turn, A B B A A B B A ..., so that drift
// affects both alike, each of them one line of JSON; and the subcommands of ferry-micro.
#pragma once

#include <algorithm>
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
// Of a single one.
template <class Work>
double nanoseconds_of(Work work) {
  return nanoseconds_each(1, [&](long) { work(); });
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
    line["pairs"].push_back({{"ours", ours()}, {"baseline", baseline()}});  // in this order
    const double second = baseline();
    line["pairs"].push_back({{"ours", ours()}, {"baseline", second}});
  }
  for (std::size_t i = 0; i < line["pairs"].size(); ++i)
    line["same"].push_back({{"ours", baseline()}, {"baseline", baseline()}});
  print(line);
}

// A figure without a counterpart, all samples kept.
inline void report_figure(const std::string& name, const std::string& unit,
                          const std::vector<double>& samples) {
  if (is_wanted(name)) print({{"measure", name}, {"unit", unit}, {"samples", samples}});
}
// The same, of `count` samples that `block` gives.
inline void measure_figure(const std::string& name, const std::string& unit, std::uint64_t count,
                           const Block& block) {
  if (!is_wanted(name)) return;
  std::vector<double> samples(count);
  std::generate(samples.begin(), samples.end(), block);
  report_figure(name, unit, samples);
}

// What the command line gave. A subcommand's usage names what it takes.
struct BenchmarkOptions {
  std::string path;   // the first argument in capital letters: FILE, FOLDER, URI
  std::string other;  // the second
  std::string kind;   // one of several words: read|write
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
  std::uint64_t depth = 0;
  std::uint64_t repeats = 0;
  std::uint64_t threads = 0;
  double seconds = 0;
};

// Each is registered by the file that has it, so the program has those that were compiled.
struct Subcommand {
  using Run = void (*)(const BenchmarkOptions& options);

  Subcommand(const char* its_name, const char* its_usage, const char* its_help, Run its_run)
      : name(its_name), usage(its_usage), help(its_help), run(its_run) {
    all().push_back(this);
  }
  Subcommand(const Subcommand&) = delete;
  Subcommand& operator=(const Subcommand&) = delete;

  static std::vector<const Subcommand*>& all() {
    static std::vector<const Subcommand*> registered;
    return registered;
  }

  const char* name;
  const char* usage;  // "FILE read|write --bytes --depth"
  const char* help;
  Run run;
};

}  // namespace ferry::benchmarks
