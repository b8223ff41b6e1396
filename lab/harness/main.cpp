// ferry-bench: the measured process. Runs a plan that lab/ferry_lab made. One JSON object per line
// on standard output; exit status 0, 1 (failed), 2 (wrong arguments or plan), 130 (interrupted).
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include <ferry/ferry.hpp>

#include "harness/environment.hpp"
#include "harness/interruption.hpp"
#include "harness/json_fields.hpp"
#include "harness/plan.hpp"
#include "harness/report.hpp"
#include "harness/runtimes.hpp"
#include "harness/session.hpp"
#include "programs/file_system.hpp"
#include "programs/json_lines.hpp"
#include "programs/storage_facts.hpp"
#include "programs/stored_file.hpp"

namespace ferry::bench {
namespace {

constexpr const char* usage =
    "Usage: ferry-bench --plan FILE    runs a plan (schema ferry.plan/2; - is standard input)\n"
    "       ferry-bench --remove PATH...  removes files, of any storage\n"
    "Both print JSON lines. The ferry command makes the plans;\n"
    "docs/reference/results-format.md describes them.\n";

constexpr int exit_interrupted = 130;

Plan load_plan(const std::string& file_name) {
  if (file_name == "-") return read_plan(std::cin);
  std::ifstream file(file_name);
  if (!file) throw PlanError(file_name + " cannot be read");
  return read_plan(file);
}

int run_plan(const std::string& file_name) {
  Report report;
  const Plan plan = load_plan(file_name);
  hold_signals();
  report_bus_errors();
  const std::shared_ptr<storage::Storage> clients = side_storage();  // for all that is untimed
  const Runtimes runtimes(plan);
  const Interruption interruption(runtimes);
  try {
    report.environment(environment_facts(plan, runtimes));
    Session(plan, runtimes, interruption, report).run();
    report.done();
    return 0;
  } catch (const CellFailure& failure) {
    print_error(failure.cell, failure.error_number, failure.what());
  } catch (const Error& error) {
    if (!interruption.stopped()) throw;
    print_error("", EINTR, "interrupted");
  }
  return interruption.stopped() ? exit_interrupted : exit_failed;
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

int run(int count, char** arguments) {
  const std::string word = count > 1 ? arguments[1] : "";
  const std::string value = count > 2 ? arguments[2] : "";
  if (word == "--help" && count == 2) {
    std::fputs(usage, stdout);
    return 0;
  }
  const bool plan = word == "--plan" && count == 3;
  const bool removal = word == "--remove" && count > 2;
  if (!plan && !removal) {
    std::fputs(usage, stderr);
    return exit_wrong_arguments;
  }
  if (removal) return remove_files(count - 2, arguments + 2);
  try {
    return run_plan(value);
  } catch (const PlanError& error) {
    print_error("", EINVAL, error.what());
    return exit_wrong_arguments;
  }
}

}  // namespace
}  // namespace ferry::bench

int main(int count, char** arguments) {
  return ferry::bench::run_reporting_errors("ferry-bench",
                                            [&] { return ferry::bench::run(count, arguments); });
}
