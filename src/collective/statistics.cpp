// The counters of a collective::File, as numbers and as JSON.
#include <array>
#include <cmath>
#include <utility>

#include <nlohmann/json.hpp>

#include "collective/impl.hpp"

namespace ferry::collective {
namespace {

using Json = nlohmann::ordered_json;

Json json_of(const Phases& phases) {
  const auto whole = [](double ns) { return std::llround(ns); };
  return {{"plan_ns", whole(phases.plan_ns)}, {"exchange_ns", whole(phases.exchange_ns)},
          {"pack_ns", whole(phases.pack_ns)}, {"file_io_ns", whole(phases.file_io_ns)},
          {"sync_ns", whole(phases.sync_ns)}, {"wait_ns", whole(phases.wait_ns)}};
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
  const Counts& counts = statistics.counts;
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
                  {"counts",
                   {{"messages", counts.messages},
                    {"message_bytes", counts.message_bytes},
                    {"remote_messages", counts.remote_messages},
                    {"remote_bytes", counts.remote_bytes},
                    {"shared_bytes", counts.shared_bytes},
                    {"storage_requests", counts.storage_requests},
                    {"storage_bytes", counts.storage_bytes},
                    {"storage_opens", counts.storage_opens},
                    {"gpu_bytes", counts.gpu_bytes}}},
                  {"mean", json_of(statistics.mean)},
                  {"maximum", json_of(statistics.maximum)}};
  return json.dump();
}

Statistics File::Impl::statistics() {
  orders_->finish_all();  // also ends those of a closed file
  on_all(Call::statistics, [&] { begin(Call::statistics, "asking for the statistics of"); });
  constexpr std::size_t phase_count = sizeof(Phases) / sizeof(double);
  std::array<double, phase_count> mean{phases_.plan_ns,    phases_.exchange_ns, phases_.pack_ns,
                                       phases_.file_io_ns, phases_.sync_ns,     phases_.wait_ns};
  auto maximum = mean;
  const auto members = {&Counts::messages,      &Counts::message_bytes, &Counts::remote_messages,
                        &Counts::remote_bytes,  &Counts::shared_bytes,  &Counts::storage_requests,
                        &Counts::storage_bytes, &Counts::storage_opens, &Counts::gpu_bytes};
  std::vector<double> counts;
  for (const auto member : members)
    counts.push_back(static_cast<double>(counts_.*member));
  counts.push_back(writes_here() ? 1 : 0);
  everyone().sum(mean);
  everyone().maximum(std::span<double>(maximum));
  everyone().sum(counts);
  for (double& value : mean)
    value /= everyone().size();
  Statistics statistics;
  statistics.mean = {mean[0], mean[1], mean[2], mean[3], mean[4], mean[5]};
  statistics.maximum = {maximum[0], maximum[1], maximum[2], maximum[3], maximum[4], maximum[5]};
  auto count = counts.begin();
  for (const auto member : members)
    statistics.counts.*member = static_cast<std::uint64_t>(*count++);
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
