// The counters of a collective::File, as numbers and as JSON.
#include <array>
#include <cmath>
#include <utility>

#include <nlohmann/json.hpp>

#include "collective/impl.hpp"

namespace ferry::collective {
namespace {

using Json = nlohmann::ordered_json;

struct Phase {
  const char* name;
  double Phases::*member;
};
constexpr Phase all_phases[] = {
    {"plan_ns", &Phases::plan_ns}, {"exchange_ns", &Phases::exchange_ns},
    {"pack_ns", &Phases::pack_ns}, {"file_io_ns", &Phases::file_io_ns},
    {"sync_ns", &Phases::sync_ns}, {"wait_ns", &Phases::wait_ns}};

struct Counter {
  const char* name;
  std::uint64_t Counts::*member;
};
constexpr Counter all_counters[] = {{"messages", &Counts::messages},
                                    {"message_bytes", &Counts::message_bytes},
                                    {"remote_messages", &Counts::remote_messages},
                                    {"remote_bytes", &Counts::remote_bytes},
                                    {"shared_bytes", &Counts::shared_bytes},
                                    {"storage_requests", &Counts::storage_requests},
                                    {"storage_bytes", &Counts::storage_bytes},
                                    {"storage_opens", &Counts::storage_opens},
                                    {"gpu_bytes", &Counts::gpu_bytes}};

Json json_of(const Phases& phases) {
  Json json;
  for (const Phase& phase : all_phases)
    json[phase.name] = std::llround(phases.*phase.member);
  return json;
}

Json json_of(const Counts& counts) {
  Json json;
  for (const Counter& counter : all_counters)
    json[counter.name] = counts.*counter.member;
  return json;
}

std::string writers_reason(const Settings& settings) {
  switch (settings.writers_origin) {
    case Origin::asked:
      return "asked for";
    case Origin::profile:
      return std::to_string(settings.writers_per_node) + " for each node, by the profile";
    default:
      return "one for every eight ranks of a node, at least two";
  }
}

std::string buffer_reason(const Settings& settings, bool one_node) {
  switch (settings.buffer_origin) {
    case Origin::asked:
      return "asked for";
    case Origin::profile:
      return "by the profile";
    case Origin::stripes:
      return "as large as a stripe";
    default:
      return one_node ? "ranks of one node" : "ranks of several nodes";
  }
}

}  // namespace

std::string to_json(const Statistics& statistics) {
  const Json json{{"method", name_of(statistics.method)},
                  {"reason", statistics.reason},
                  {"writers", statistics.writers},
                  {"writers_reason", statistics.writers_reason},
                  {"buffer_bytes", statistics.buffer_bytes},
                  {"buffer_reason", statistics.buffer_reason},
                  {"stripes",
                   {{"stripe_bytes", statistics.stripes.stripe_bytes},
                    {"stripe_count", statistics.stripes.stripe_count},
                    {"reason", statistics.stripes.reason}}},
                  {"counts", json_of(statistics.counts)},
                  {"mean", json_of(statistics.mean)},
                  {"maximum", json_of(statistics.maximum)}};
  return json.dump();
}

Statistics File::Impl::statistics() {
  orders_->finish_all();  // also ends those of a closed file
  on_all(Call::statistics, [&] { begin(Call::statistics, "asking for the statistics of"); });
  std::array<double, std::size(all_phases)> mean{};
  for (std::size_t i = 0; i < mean.size(); ++i)
    mean[i] = phases_.*all_phases[i].member;
  auto maximum = mean;
  std::vector<double> counts;
  for (const Counter& counter : all_counters)
    counts.push_back(static_cast<double>(counts_.*counter.member));
  counts.push_back(writes_here() ? 1 : 0);
  everyone().sum(mean);
  everyone().maximum(std::span<double>(maximum));
  everyone().sum(counts);
  Statistics statistics;
  for (std::size_t i = 0; i < mean.size(); ++i) {
    statistics.mean.*all_phases[i].member = mean[i] / everyone().size();
    statistics.maximum.*all_phases[i].member = maximum[i];
  }
  auto count = counts.begin();
  for (const Counter& counter : all_counters)
    statistics.counts.*counter.member = static_cast<std::uint64_t>(*count++);
  statistics.method = method_;
  statistics.reason = reason_;
  statistics.writers = static_cast<int>(*count);
  statistics.writers_reason = writers_reason(settings_);
  statistics.buffer_bytes = settings_.buffer_bytes;
  statistics.buffer_reason = buffer_reason(settings_, team_->is_one_node());
  statistics.stripes = stripes_;
  if (method_ == Method::independent) statistics.writers = everyone().size();
  return statistics;
}

}  // namespace ferry::collective
