#include "load/calls.hpp"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace ferry::load {

Latencies::Latencies(const std::vector<LoadPlace>& places, std::chrono::milliseconds scheduling)
    : places_(places), scheduling_(scheduling), cells_(places.size() * kinds) {}

void Latencies::note(std::size_t place, LoadCall kind, std::uint64_t ns, bool beside_hang) {
  Cell& cell = cells_[place * kinds + static_cast<std::size_t>(kind)];
  const std::lock_guard lock(cell.mutex);
  cell.histogram.note(ns);
  if (!beside_hang) cell.longest_alone_ns = std::max(cell.longest_alone_ns, ns);
}

Nanoseconds Latencies::bound_of(std::size_t place, LoadCall kind) const {
  return requests_of(kind) * places_[place].request_bound + scheduling_;
}

std::vector<std::string> Latencies::beyond_bounds() const {
  std::vector<std::string> lines;
  for (std::size_t place = 0; place < places_.size(); ++place) {
    for (std::size_t i = 0; i < kinds; ++i) {
      const auto kind = static_cast<LoadCall>(i);
      const Nanoseconds longest(of(place, kind).longest_ns);
      if (longest <= bound_of(place, kind)) continue;
      lines.push_back(places_[place].name + ": a call of " + kind_names[i] + " took " +
                      std::to_string(longest.count() / 1'000'000) + " ms; its bound is " +
                      std::to_string(bound_of(place, kind).count() / 1'000'000) + " ms (" +
                      places_[place].source + ")");
    }
  }
  return lines;
}

std::string Latencies::table(const Latencies& plain) const {
  std::string text =
      "                                                            longest\n"
      "storage  call           calls     50 %     99 %   99.9 %      all  no hang    plain"
      "    bound (ms)\n";
  for (std::size_t place = 0; place < places_.size(); ++place) {
    for (std::size_t i = 0; i < kinds; ++i) {
      const auto kind = static_cast<LoadCall>(i);
      const bench::LatencyHistogram& calls = of(place, kind);
      if (calls.samples() == 0) continue;
      const auto ms = [](std::uint64_t ns) { return static_cast<double>(ns) / 1e6; };
      const bench::LatencyHistogram& plain_calls = plain.of(place, kind);
      char plain_longest[16] = "-";
      if (plain_calls.samples() > 0)
        std::snprintf(plain_longest, sizeof plain_longest, "%.1f", ms(plain_calls.longest_ns));
      char line[200];
      std::snprintf(line, sizeof line, "%-8s %-9s %10llu %8.3f %8.2f %8.2f %8.1f %8.1f %8s %8.0f\n",
                    places_[place].name.c_str(), kind_names[i],
                    static_cast<unsigned long long>(calls.samples()), ms(calls.percentile(500)),
                    ms(calls.percentile(990)), ms(calls.percentile(999)), ms(calls.longest_ns),
                    ms(cell(place, kind).longest_alone_ns), plain_longest,
                    ms(static_cast<std::uint64_t>(bound_of(place, kind).count())));
      text += line;
    }
  }
  for (const LoadPlace& place : places_)
    text += place.name + ": " + place.source + "\n";
  return text;
}

void SlowCalls::note(Call call) {
  const std::lock_guard lock(mutex_);
  const auto shorter =
      std::ranges::find_if(calls_, [&](const Call& other) { return other.ns < call.ns; });
  calls_.insert(shorter, std::move(call));
  if (calls_.size() > kept) calls_.pop_back();
  if (calls_.size() == kept) least_ns_ = calls_.back().ns;
}

std::string SlowCalls::text() const {
  const std::lock_guard lock(mutex_);
  std::string text;
  for (const Call& call : calls_)
    text += "  " + std::to_string(call.ns / 1'000'000) + " ms, " +
            std::to_string(call.beside_hang_ns / 1'000'000) + " beside a hang, " +
            std::to_string(call.server_ready_ns / 1'000'000) +
            " while the server had no CPU: " + call.what + "\n";
  return text;
}

}  // namespace ferry::load
