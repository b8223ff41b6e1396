#include "harness/mpi/report.hpp"

#include <array>
#include <cerrno>
#include <cstdio>

#include <mpi.h>
#include <nlohmann/json.hpp>

#include "programs/layout_facts.hpp"
#include "programs/machine_facts.hpp"

namespace ferry::bench::mpi {
namespace {

using Json = nlohmann::ordered_json;

void print(const Json& line) {
  // Paths need not be UTF-8.
  const std::string text = line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw Error(errno, "standard output");
  }
}

// "MPICH Version: 4.0.2"
std::string library_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  std::string first(text.data(), static_cast<std::size_t>(length));
  first = first.substr(0, first.find('\n'));
  for (char& letter : first)
    if (letter == '\t') letter = ' ';
  return first;
}

}  // namespace

void print_environment(const Plan& plan, int ranks) {
  std::vector<std::string> paths;
  for (const Cell& cell : plan.cells)
    paths.push_back(cell.path);
  Json versions = version_facts();
  versions["mpi"] = library_version();
  print({{"type", "environment"},
         {"machine", machine_facts()},
         {"versions", std::move(versions)},
         {"runtimes", Json::array()},
         {"file_systems", file_systems_of(paths)},
         {"ranks", ranks}});
}

void print_sample(const Cell& cell, int repeat, const Sample& sample,
                  std::optional<CacheState> state, const std::optional<storage::Layout>& layout) {
  const SystemCounters& system = sample.system;
  // As the library tells it.
  const Json told = sample.counted ? Json::parse(collective::to_json(*sample.counted)) : Json();
  const auto of = [&](const char* key) { return sample.counted ? told[key] : Json(nullptr); };
  const bool by_views = sample.counted && cell.interface == Interface::ferry;
  const Json line = {
      {"type", "sample"},
      {"cell", cell.id},
      {"repeat", repeat},
      {"elapsed_ns", sample.open_ns + sample.io_ns + sample.sync_ns + sample.close_ns},
      {"open_ns", sample.open_ns},
      {"io_ns", sample.io_ns},
      {"sync_ns", sample.sync_ns},
      {"close_ns", sample.close_ns},
      {"bytes", sample.bytes},
      {"operations", sample.operations},
      {"writers", of("writers")},
      {"method", by_views ? told["method"] : Json(nullptr)},
      {"reason", by_views ? told["reason"] : Json(nullptr)},
      {"oversubscribed", sample.oversubscribed},
      {"ranks_usage",
       {{"user_cpu_ns", sample.usage.user_cpu_ns},
        {"system_cpu_ns", sample.usage.system_cpu_ns},
        {"voluntary_switches", sample.usage.voluntary_switches},
        {"involuntary_switches", sample.usage.involuntary_switches},
        {"read_calls", sample.calls.reads},
        {"write_calls", sample.calls.writes}}},
      {"machine_usage",
       {{"user_cpu_ns", system.user_cpu_ns},
        {"system_cpu_ns", system.system_cpu_ns},
        {"context_switches", system.context_switches},
        {"network_bytes", system.network_bytes},
        {"network_packets", system.network_packets}}},
      {"counts", of("counts")},
      {"time_split",
       sample.counted ? Json{{"mean", told["mean"]}, {"maximum", told["maximum"]}} : Json(nullptr)},
      {"stripes", by_views ? told["stripes"] : Json(nullptr)},
      {"layout", layout ? Json(layout_facts(*layout)) : Json(nullptr)},
      {"cache_state", state ? Json(name_of(*state)) : Json(nullptr)},
      {"verified", true},
      {"pattern_seed", sample.pattern_seed}};
  print(line);
}

void print_done() {
  print({{"type", "done"}});
}

void print_error(const std::string& cell, int error_number, const std::string& message) {
  print({{"type", "error"},
         {"cell", text_or_null(cell)},
         {"errno", error_number},
         {"message", message}});
}

void print_info() {
  print({{"schema", "ferry.mpi-info/1"}, {"mpi", library_version()}, {"mpiexec", FERRY_MPIEXEC}});
}

}  // namespace ferry::bench::mpi
