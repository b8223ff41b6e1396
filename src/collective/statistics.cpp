// The counters of a collective::File, as numbers and as JSON.
#include <array>
#include <cmath>

#include <nlohmann/json.hpp>

#include "collective/impl.hpp"

namespace ferry::collective {
namespace {

using Json = nlohmann::ordered_json;

// Members by their keys in JSON.
template <class Owner, class Value>
struct Named {
  const char* name;
  Value Owner::*member;
};
constexpr Named<Phases, double> all_phases[] = {
    {"plan_ns", &Phases::plan_ns}, {"exchange_ns", &Phases::exchange_ns},
    {"pack_ns", &Phases::pack_ns}, {"file_io_ns", &Phases::file_io_ns},
    {"sync_ns", &Phases::sync_ns}, {"wait_ns", &Phases::wait_ns}};

constexpr Named<Counts, std::uint64_t> all_counters[] = {
    {"messages", &Counts::messages},
    {"message_bytes", &Counts::message_bytes},
    {"remote_messages", &Counts::remote_messages},
    {"remote_bytes", &Counts::remote_bytes},
    {"shared_bytes", &Counts::shared_bytes},
    {"storage_requests", &Counts::storage_requests},
    {"storage_bytes", &Counts::storage_bytes},
    {"storage_opens", &Counts::storage_opens},
    {"gpu_bytes", &Counts::gpu_bytes}};

std::uint64_t whole(std::uint64_t number) {
  return number;
}
std::int64_t whole(double ns) {
  return std::llround(ns);
}

// What was added since `before`.
template <class Owner>
Owner added(const Owner& now, const Owner& before, const auto& members) {
  Owner more;
  for (const auto& [name, member] : members)
    more.*member = now.*member - before.*member;
  return more;
}

Json json_of(const auto& owner, const auto& members) {
  Json json;
  for (const auto& [name, member] : members)
    json[name] = whole(owner.*member);
  return json;
}

std::string writers_reason(const Settings& settings) {
  if (settings.writers_origin == Origin::asked) return "asked for";
  if (settings.writers_origin == Origin::profile)
    return std::to_string(settings.writers_per_node) + " for each node, by the profile";
  return "one for every eight ranks of a node, at least two";
}

// By Origin.
const char* buffer_reason(const Settings& settings, bool one_node) {
  const std::array reasons{one_node ? "ranks of one node" : "ranks of several nodes", "asked for",
                           "by the profile", "as large as a stripe"};
  return reasons.at(static_cast<std::size_t>(settings.buffer_origin));
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
                  {"counts", json_of(statistics.counts, all_counters)},
                  {"mean", json_of(statistics.mean, all_phases)},
                  {"maximum", json_of(statistics.maximum, all_phases)}};
  return json.dump();
}

void File::Impl::count_transfer(Method method, std::int64_t bytes) {
  counted_.is_carried_out = true;
  counted_.method = method;
  counted_.bytes = bytes;
}

void File::Impl::tell_counts() {
  if (count_) {
    counted_.phases = added(phases_, told_phases_, all_phases);
    counted_.counts = added(counts_, told_counts_, all_counters);
    told_phases_ = phases_;
    told_counts_ = counts_;
    count_(counted_);
  }
  counted_ = {};
}

Statistics File::Impl::statistics() {
  orders_->finish_all();  // also ends those of a closed file
  Statistics statistics;
  on_all(Call::statistics, [&] {
    statistics.reason = reason_;
    statistics.writers_reason = writers_reason(settings_);
    statistics.buffer_reason = buffer_reason(settings_, team_->is_one_node());
    statistics.stripes = stripes_;
    begin(Call::statistics, "asking for the statistics of");
  });
  // The others wait: no memory from here on.
  std::array<double, std::size(all_phases)> mean{};
  for (std::size_t i = 0; i < mean.size(); ++i)
    mean[i] = phases_.*all_phases[i].member;
  auto maximum = mean;
  std::array<double, std::size(all_counters) + 1> counts{};
  for (std::size_t i = 0; i < std::size(all_counters); ++i)
    counts[i] = static_cast<double>(counts_.*all_counters[i].member);
  counts.back() = writes_here() ? 1 : 0;
  everyone().sum(mean);
  everyone().maximum(std::span<double>(maximum));
  everyone().sum(counts);
  for (std::size_t i = 0; i < mean.size(); ++i) {
    statistics.mean.*all_phases[i].member = mean[i] / everyone().size();
    statistics.maximum.*all_phases[i].member = maximum[i];
  }
  for (std::size_t i = 0; i < std::size(all_counters); ++i)
    statistics.counts.*all_counters[i].member = static_cast<std::uint64_t>(counts[i]);
  statistics.method = method_;
  statistics.writers = static_cast<int>(counts.back());
  statistics.buffer_bytes = settings_.buffer_bytes;
  if (method_ == Method::independent) statistics.writers = everyone().size();
  return statistics;
}

}  // namespace ferry::collective
