// ferry-bench-mpi: ferry-bench on many ranks. `mpiexec -n RANKS ferry-bench-mpi --plan FILE`; rank
// 0 reads the plan and prints.
#include <cstdio>
#include <exception>
#include <string>

#include <mpi.h>
#include <nlohmann/json.hpp>

#include "harness/bench.hpp"
#include "harness/interruption.hpp"
#include "harness/mpi/ranks_device.hpp"
#include "programs/json_lines.hpp"

namespace ferry::bench {
namespace {

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
