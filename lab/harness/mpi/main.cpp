// ferry-bench-mpi: ferry-bench on many ranks. `mpiexec -n RANKS ferry-bench-mpi --plan FILE`; rank
// 0 reads the plan, runs the session, directs the others and prints.
#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <mpi.h>
#include <nlohmann/json.hpp>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <ferry/signals.hpp>

#include "harness/bench.hpp"
#include "harness/interruption.hpp"
#include "harness/json_fields.hpp"
#include "harness/mpi/rank_worker.hpp"
#include "harness/programs.hpp"
#include "programs/json_lines.hpp"

namespace ferry::bench {
namespace {

// What all ranks do next. Crosses the wire as it is.
struct RankTask {
  enum class Step : std::uint64_t { plan, verify_reads, run, verify, drop_plan, end };
  Step step = Step::end;
  std::uint64_t value = 0;  // bytes of the plan that follows, a pattern's seed, or the exit status
  // Of the steps on a cell.
  std::uint64_t cell = 0;  // its number
  std::uint64_t repeat = 0;
  std::uint64_t has_seed = 0;
};

void do_step(RankWorker& worker, const RankTask& task, Sample& sample,
             const std::atomic<bool>& stopped) {
  RankRun run{task.cell, static_cast<unsigned>(task.repeat), std::nullopt};
  if (task.has_seed != 0) run.pattern_seed = task.value;
  if (task.step == RankTask::Step::verify_reads) worker.verify_reads(run);
  if (task.step == RankTask::Step::run) sample = worker.run(run, stopped);
  if (task.step == RankTask::Step::verify) worker.verify(run);
}

// "MPICH Version: 4.0.2". Also where MPI is not initialised.
std::string mpi_library_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  std::string first = text.data();  // Open MPI counts its end, too
  first = first.substr(0, first.find('\n'));
  std::replace(first.begin(), first.end(), '\t', ' ');
  return first;
}

class RanksDevice final : public MeasuredDevice {
 public:
  RanksDevice(const Ranks& world, const Plan& plan) : world_(world), plan_(plan) {
    std::string text = plan.text;
    together({RankTask::Step::plan, text.size()}, [&] {
      world_.broadcast(text.data(), text.size());
      worker_.emplace(world, plan);
    });
  }

  ~RanksDevice() override {
    RankTask task{RankTask::Step::drop_plan};
    world_.broadcast(&task, sizeof task);
  }

  Sample run_cell(const CellRun& run, const std::atomic<bool>& stopped) override {
    return on_cell(RankTask::Step::run, run, stopped);
  }
  // Where the cell does not stream, each repeat compares all that it reads.
  void verify_reads(const Cell& cell, const std::atomic<bool>& stopped) override {
    if (cell.streams) on_cell(RankTask::Step::verify_reads, {cell, 0, 0, 0, ""}, stopped);
  }
  void verify_write(const CellRun& run, const Sample& /*sample*/,
                    const std::atomic<bool>& stopped) override {
    on_cell(RankTask::Step::verify, run, stopped);
    read_back(run, stopped);
  }

  void add_facts(nlohmann::ordered_json& environment) const override {
    environment["versions"]["mpi"] = mpi_library_version();
    environment["ranks"] = world_.size();
  }
  void shutdown(std::chrono::milliseconds /*deadline*/) override {}

 private:
  std::uint64_t number_of(const Cell& cell) const {
    const auto same = [&](const Cell& one) { return one.id == cell.id; };
    const auto found = std::find_if(plan_.cells.begin(), plan_.cells.end(), same);
    return static_cast<std::uint64_t>(found - plan_.cells.begin());
  }

  Sample on_cell(RankTask::Step step, const CellRun& run, const std::atomic<bool>& stopped) {
    const bool reads = run.cell.operation == MeasuredOperation::read;
    const auto seed = reads ? run.cell.expect_pattern_seed : std::optional(run.pattern_seed);
    const RankTask task{step, seed.value_or(0), number_of(run.cell), run.repeat, seed.has_value()};
    Sample sample;
    together(task, [&] { do_step(*worker_, task, sample, stopped); });
    return sample;
  }

  // Has the others do their part, and does this rank's. They agree on a ferry::Error; for anything
  // else they would wait in vain.
  template <class Step>
  void together(RankTask task, Step step) {
    world_.broadcast(&task, sizeof task);
    try {
      step();
    } catch (const Error& error) {
      if (error.code().value() == EBADMSG) throw ContentsError(error.reason());
      throw;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "ferry-bench-mpi: %s\n", error.what());
      ScratchFiles::remove_all(ScratchFiles::Caller::thread);
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
  }

  const Ranks& world_;
  const Plan& plan_;
  std::optional<RankWorker> worker_;
};

std::unique_ptr<MeasuredDevice> make_ranks_device(const Ranks& world, const Plan& plan) {
  if (plan.device != Device::ranks)
    throw PlanError("runtime.device: ferry-bench-mpi measures ranks only");
  if (world.size() < plan.runtime.device_threads) {
    throw PlanError("needs " + std::to_string(plan.runtime.device_threads) + " ranks and has " +
                    std::to_string(world.size()));
  }
  return std::make_unique<RanksDevice>(world, plan);
}

// Ends serve() on the other ranks, which return the status.
void dismiss(const Ranks& world, int status) {
  RankTask task{RankTask::Step::end, static_cast<std::uint64_t>(status)};
  world.broadcast(&task, sizeof task);
}

int serve(const Ranks& world) {
  Plan plan;
  std::optional<RankWorker> worker;
  std::atomic<bool> stopped{false};
  const SignalThread stopping([&stopped] { stopped = true; });
  for (;;) {
    RankTask task;
    world.broadcast(&task, sizeof task);
    try {
      if (task.step == RankTask::Step::end) return static_cast<int>(task.value);
      if (task.step == RankTask::Step::plan) {
        std::string text(task.value, '\0');
        world.broadcast(text.data(), text.size());
        plan = read_plan(std::move(text));
        worker.emplace(world, plan);
      } else if (task.step == RankTask::Step::drop_plan) {
        worker.reset();
      } else {
        Sample sample;
        do_step(*worker, task, sample, stopped);
      }
    } catch (const Error&) {
      continue;  // rank 0 has it, too, and says so
    }
  }
}

// Rank 0 as a child of the process that mpiexec has started: `ferry bench` under mpiexec.
constexpr std::string_view child = "--child";
// The other ranks of it. One that is alone belongs to another MPI library's mpiexec, of which the
// first one complains, if it is not ended because this one fails.
constexpr std::string_view other = "--other";

int direct(const Ranks& world, int count, char** arguments) {
  const std::string_view word = count > 1 ? arguments[1] : "";
  if (word == other) return 0;
  if (word == child && count == 2) return 0;  // nothing to measure, after an error
  const bool is_child = word == child;
  return bench("ferry-bench-mpi", count - (is_child ? 1 : 0), arguments + (is_child ? 1 : 0),
               [&](const Plan& plan, const auto&) {
                 std::unique_ptr<MeasuredDevice> device = make_ranks_device(world, plan);
                 if (is_child)
                   prctl(PR_SET_PDEATHSIG, SIGTERM);  // from now on there is a thread for it
                 return device;
               });
}

// mpiexec does not know this process, and the ranks that it has ended leave it waiting for them.
void end_with(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(exit_interrupted);
}

int run(int count, char** arguments) {
  const bool is_child = count > 1 && arguments[1] == child;
  const pid_t parent = getppid();
  if (is_child) end_with(parent);
  if (count == 2 && std::string(arguments[1]) == "--info") {
    print_line({{"schema", "ferry.mpi-info/1"},
                {"mpi", mpi_library_version()},
                {"mpiexec", FERRY_MPIEXEC}});
    return 0;
  }
  hold_signals();  // in threads of the MPI library, too
  {
    // A rank that the same signal has ended before would leave this one waiting. A child is rank 0,
    // and ends the others when they are there, or is ended by its parent.
    std::optional<SignalThread> ending;
    if (!is_child) ending.emplace([] { _exit(exit_interrupted); }, nullptr);
    MPI_Init(&count, &arguments);
  }
  int status = 0;
  {
    const Ranks world(MPI_COMM_WORLD);
    if (world.rank() == 0) {
      status = direct(world, count, arguments);
      dismiss(world, status);
    } else {
      status = serve(world);
    }
  }
  if (is_child) end_with(parent);
  MPI_Finalize();
  return status;
}

}  // namespace
}  // namespace ferry::bench

int main(int count, char** arguments) {
  try {
    return ferry::bench::run(count, arguments);
  } catch (const std::exception& error) {
    // One rank alone, where the others may wait for it: memory is gone, or standard output.
    std::fprintf(stderr, "ferry-bench-mpi: %s\n", error.what());
    int initialized = 0;
    MPI_Initialized(&initialized);
    if (initialized != 0) MPI_Abort(MPI_COMM_WORLD, 1);
    return 1;
  }
}
