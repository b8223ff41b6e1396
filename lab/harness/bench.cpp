#include "harness/bench.hpp"

#include <cerrno>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "harness/interruption.hpp"
#include "harness/json_fields.hpp"
#include "harness/report.hpp"
#include "harness/session.hpp"
#include "programs/json_lines.hpp"
#include "programs/machine_facts.hpp"
#include "programs/storage_facts.hpp"
#include "programs/stored_file.hpp"

namespace ferry::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* usage =
    "Usage: ferry-bench --plan FILE    runs a plan (schema ferry.plan/3; - is standard input)\n"
    "       ferry-bench --remove PATH...  removes files, of any storage\n"
    "       mpiexec -n RANKS ferry-bench-mpi --plan FILE   runs one of the device ranks\n"
    "       ferry-bench-mpi --info     names the MPI library, and its mpiexec\n"
    "All print JSON lines. The ferry command makes the plans;\n"
    "docs/reference/results-format.md describes them.\n";

Json cache_facts(std::uint64_t cache_bytes, std::uint32_t page_bytes) {
  if (cache_bytes == 0) return nullptr;
  return {{"cache_bytes", cache_bytes}, {"page_bytes", page_bytes}};
}

// Machine, versions, runtimes, and the file systems and storages of the cells' files.
Json environment_facts(const Plan& plan, const Runtimes& runtimes) {
  std::vector<std::string> paths;
  for (const Cell& cell : plan.cells)
    paths.push_back(cell.path);
  Json environment = {{"machine", machine_facts()},
                      {"versions", version_facts()},
                      {"runtimes", Json::array()},
                      {"file_systems", file_systems_of(paths)},
                      {"storages", storages_of(paths)}};
  for (const Runtimes::Entry& entry : runtimes.all()) {
    entry.device->add_facts(environment);
    const std::optional<RuntimeInfo> info = entry.device->info();
    if (!info) continue;
    Json facts = runtime_facts(*info, name_of(plan.device));
    facts["page_cache"] = cache_facts(entry.cache_bytes, entry.page_bytes);
    environment["runtimes"].push_back(std::move(facts));
  }
  return environment;
}

Plan load_plan(const std::string& file_name) {
  std::ifstream file;
  if (file_name != "-") file.open(file_name);
  if (!file) throw PlanError(file_name + " cannot be read");
  std::istream& input = file_name == "-" ? std::cin : file;
  return read_plan({std::istreambuf_iterator<char>(input), {}});
}

int run_plan(const std::string& file_name, const DeviceMaker& make_device) {
  const Plan plan = load_plan(file_name);
  hold_signals();
  report_bus_errors();
  const std::shared_ptr<storage::Storage> clients = side_storage();  // for all that is untimed
  const Runtimes runtimes(plan, make_device);
  const Interruption interruption(runtimes);
  try {
    report_environment(environment_facts(plan, runtimes));
    Session(plan, runtimes, interruption).run();
    report_done();
    return 0;
  } catch (const CellFailure& failure) {
    print_error(failure.cell, failure.error_number, failure.what());
    return failure.error_number == EINTR ? exit_interrupted : exit_failed;
  } catch (const Error&) {
    if (!interruption.stopped()) throw;
    print_error("", EINTR, "interrupted");
    return exit_interrupted;
  }
}

// What is not there counts as removed.
int remove_files(int count, char** paths) {
  const std::shared_ptr<storage::Storage> clients = side_storage();
  int status = 0;
  for (int i = 0; i < count; ++i) {
    try {
      remove_file(paths[i]);
    } catch (const Error& error) {
      print_error("", error.code().value(), error.what());
      status = exit_failed;
    }
  }
  return status;
}

int run(int count, char** arguments, const DeviceMaker& make_device) {
  const std::string word = count > 1 ? arguments[1] : "";
  if (word == "--remove" && count > 2) return remove_files(count - 2, arguments + 2);
  if (word == "--plan" && count == 3) {
    try {
      return run_plan(arguments[2], make_device);
    } catch (const PlanError& error) {
      print_error("", EINVAL, error.what());
      return exit_wrong_arguments;
    }
  }
  const bool help = word == "--help" && count == 2;
  std::fputs(usage, help ? stdout : stderr);
  return help ? 0 : exit_wrong_arguments;
}

}  // namespace

int bench(const char* name, int count, char** arguments, const DeviceMaker& make_device) {
  return run_reporting_errors(name, [&] { return run(count, arguments, make_device); });
}

}  // namespace ferry::bench
