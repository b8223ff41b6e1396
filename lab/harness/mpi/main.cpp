// ferry-bench-mpi: ferry-bench on many ranks. `mpiexec -n RANKS ferry-bench-mpi --plan FILE`; rank
// 0 reads the plan, runs the session, directs the others and prints.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <memory>
#include <optional>
#include <string>

#include <mpi.h>
#include <nlohmann/json.hpp>

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
  enum class Step : std::uint64_t { plan, run, verify, drop_plan, end };
  Step step = Step::end;
  std::uint64_t cell = 0;   // its number; of run and verify
  std::uint64_t value = 0;  // bytes of the plan that follows, a pattern's seed, or the exit status
};

// "MPICH Version: 4.0.2". Also where MPI is not initialised.
std::string mpi_library_version() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  std::string first(text.data(), static_cast<std::size_t>(length));
  first = first.substr(0, first.find('\n'));
  std::replace(first.begin(), first.end(), '\t', ' ');
  return first;
}

class RanksDevice final : public MeasuredDevice {
 public:
  RanksDevice(const Ranks& world, const Plan& plan) : world_(world), plan_(plan) {
    std::string text = plan.text;
    together({RankTask::Step::plan, 0, text.size()}, [&] {
      world_.broadcast(text.data(), text.size());
      worker_.emplace(world, plan);
    });
  }

  ~RanksDevice() override {
    RankTask task{RankTask::Step::drop_plan};
    world_.broadcast(&task, sizeof task);
  }

  Sample run_cell(const CellRun& run, const std::atomic<bool>& /*stopped*/) override {
    const std::uint64_t number = number_of(run.cell);
    const std::uint64_t seed =
        run.cell.operation == MeasuredOperation::read ? run.cell.seed : run.pattern_seed;
    Sample sample;
    together({RankTask::Step::run, number, seed}, [&] { sample = worker_->run(number, seed); });
    return sample;
  }
  // Each repeat compares all that it reads.
  void verify_reads(const Cell& /*cell*/, const std::atomic<bool>& /*stopped*/) override {}
  void verify_write(const CellRun& run, const Sample& /*sample*/,
                    const std::atomic<bool>& /*stopped*/) override {
    const std::uint64_t number = number_of(run.cell);
    together({RankTask::Step::verify, number, run.pattern_seed},
             [&] { worker_->verify(number, run.pattern_seed); });
  }

  void add_facts(nlohmann::ordered_json& environment) const override {
    environment["versions"]["mpi"] = mpi_library_version();
    environment["ranks"] = world_.size();
  }
  bool shutdown(std::chrono::milliseconds /*deadline*/) override { return false; }

 private:
  std::uint64_t number_of(const Cell& cell) const {
    const auto same = [&](const Cell& one) { return one.id == cell.id; };
    const auto found = std::find_if(plan_.cells.begin(), plan_.cells.end(), same);
    return static_cast<std::uint64_t>(found - plan_.cells.begin());
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
  RankTask task{RankTask::Step::end, 0, static_cast<std::uint64_t>(status)};
  world.broadcast(&task, sizeof task);
}

int serve(const Ranks& world) {
  Plan plan;
  std::optional<RankWorker> worker;
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
      } else if (task.step == RankTask::Step::run) {
        worker->run(task.cell, task.value);
      } else {
        worker->verify(task.cell, task.value);
      }
    } catch (const Error&) {
      continue;  // rank 0 has it, too, and says so
    }
  }
}

int run(int count, char** arguments) {
  if (count == 2 && std::string(arguments[1]) == "--info") {
    print_line({{"schema", "ferry.mpi-info/1"},
                {"mpi", mpi_library_version()},
                {"mpiexec", FERRY_MPIEXEC}});
    return 0;
  }
  hold_signals();  // in threads of the MPI library, too
  MPI_Init(&count, &arguments);
  int status = 0;
  {
    const Ranks world(MPI_COMM_WORLD);
    if (world.rank() == 0) {
      status = bench("ferry-bench-mpi", count, arguments,
                     [&](const Plan& plan, const auto&) { return make_ranks_device(world, plan); });
      dismiss(world, status);
    } else {
      status = serve(world);
    }
  }
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
