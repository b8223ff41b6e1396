// ferry-bench-mpi: the measured ranks. `mpiexec -n RANKS ferry-bench-mpi --plan FILE` runs a plan
// that lab/ferry_lab made; rank 0 prints one JSON object per line. Exit status 0, 1 (failed), 2
// (wrong arguments or plan), 130 (interrupted).
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <exception>
#include <fstream>
#include <functional>
#include <iostream>
#include <sstream>
#include <string>
#include <thread>

#include <mpi.h>
#include <signal.h>
#include <unistd.h>

#include "harness/json_fields.hpp"
#include "harness/mpi/report.hpp"
#include "harness/mpi/session.hpp"

namespace ferry::bench::mpi {
namespace {

constexpr const char* usage =
    "Usage: mpiexec -n RANKS ferry-bench-mpi --plan FILE   runs a plan (schema ferry.mpi-plan/1;\n"
    "                                                      - is standard input of rank 0)\n"
    "       ferry-bench-mpi --info                         the MPI library, and its mpiexec\n"
    "Both print JSON lines. The ferry command makes the plans;\n"
    "docs/reference/measuring-ranks.md describes them.\n";

constexpr int exit_failed = 1;
constexpr int exit_wrong_arguments = 2;
constexpr int exit_interrupted = 130;

// Takes SIGINT, SIGTERM and SIGHUP for the whole process: the first asks the session to stop after
// the repeat under way. Where that takes too long, files are removed and the process ends.
class Interruption {
 public:
  explicit Interruption(std::function<void()> last_resort)
      : last_resort_(std::move(last_resort)), thread_([this] { watch(); }) {}
  ~Interruption() {
    done_ = true;
    thread_.join();
  }
  Interruption(const Interruption&) = delete;
  Interruption& operator=(const Interruption&) = delete;

  // Before any thread is started: those of the MPI library, too.
  static void hold_signals() {
    const sigset_t set = signals();
    pthread_sigmask(SIG_BLOCK, &set, nullptr);
    ::signal(SIGPIPE, SIG_IGN);
    ::signal(SIGXFSZ, SIG_IGN);
  }
  const std::atomic<bool>& stopped() const { return stopped_; }

 private:
  static constexpr std::chrono::seconds patience{3};

  static sigset_t signals() {
    sigset_t set;
    sigemptyset(&set);
    for (const int number : {SIGINT, SIGTERM, SIGHUP})
      sigaddset(&set, number);
    return set;
  }

  void watch() {
    const sigset_t set = signals();
    const timespec nap{0, 100'000'000};
    std::chrono::steady_clock::time_point deadline;
    while (!done_) {
      const bool got = sigtimedwait(&set, nullptr, &nap) > 0;
      const auto now = std::chrono::steady_clock::now();
      if (got && !stopped_.exchange(true)) deadline = now + patience;
      if (!stopped_ || now < deadline) continue;
      last_resort_();
      ::_exit(exit_interrupted);
    }
  }

  std::function<void()> last_resort_;
  std::atomic<bool> stopped_{false};
  std::atomic<bool> done_{false};
  std::thread thread_;  // last: it uses what is above
};

// Read by rank 0, parsed by all.
std::string broadcast_plan(const std::string& file_name, const collective::Team& world) {
  std::string text;
  std::int64_t bytes = -1;
  if (world.rank() == 0) {
    std::ostringstream content;
    std::ifstream file;
    if (file_name != "-") file.open(file_name);
    if (file_name == "-" || file) {
      content << (file_name == "-" ? std::cin.rdbuf() : file.rdbuf());
      text = content.str();
      bytes = static_cast<std::int64_t>(text.size());
    }
  }
  world.broadcast(&bytes, sizeof bytes);
  if (bytes < 0) throw PlanError(file_name + " cannot be read");
  text.resize(static_cast<std::size_t>(bytes));
  world.broadcast(text.data(), static_cast<int>(bytes));
  return text;
}

int run_plan(const std::string& file_name) {
  const collective::Team world(MPI_COMM_WORLD);
  const bool speaks = world.rank() == 0;
  try {
    std::istringstream text(broadcast_plan(file_name, world));
    const Plan plan = read_plan(text);
    if (world.size() < static_cast<int>(plan.ranks)) {
      throw PlanError("needs " + std::to_string(plan.ranks) + " ranks and has " +
                      std::to_string(world.size()));
    }
    if (speaks) print_environment(plan, world.size());
    Files files;
    MadeFiles made(files);
    const Interruption interruption([&] { made.remove_all(); });
    Session(MPI_COMM_WORLD, plan, files, made, interruption.stopped()).run();
    if (speaks) print_done();
    return 0;
  } catch (const PlanError& error) {
    if (speaks) print_error("", EINVAL, error.what());
    return exit_wrong_arguments;
  } catch (const CellFailure& failure) {
    if (speaks) print_error(failure.cell, failure.error_number, failure.what());
    return failure.error_number == EINTR ? exit_interrupted : exit_failed;
  }
}

int run(int count, char** arguments) {
  const std::string word = count > 1 ? arguments[1] : "";
  if (word == "--help" && count == 2) {
    std::fputs(usage, stdout);
    return 0;
  }
  const bool plan = word == "--plan" && count == 3;
  const bool info = word == "--info" && count == 2;
  if (!plan && !info) {
    std::fputs(usage, stderr);
    return exit_wrong_arguments;
  }
  Interruption::hold_signals();
  if (info) {  // which MPI tells without being initialised
    print_info();
    return 0;
  }
  MPI_Init(&count, &arguments);
  const int status = run_plan(arguments[2]);
  MPI_Finalize();
  return status;
}

}  // namespace
}  // namespace ferry::bench::mpi

int main(int count, char** arguments) {
  try {
    return ferry::bench::mpi::run(count, arguments);
  } catch (const std::exception& error) {
    // One rank alone, where the others may wait for it: memory is gone, or standard output.
    std::fprintf(stderr, "ferry-bench-mpi: %s\n", error.what());
    int initialized = 0;
    MPI_Initialized(&initialized);
    if (initialized != 0) MPI_Abort(MPI_COMM_WORLD, 1);
    return 1;
  }
}
