// The device `ranks`: the MPI ranks started together measure the cells. Rank 0 runs the session and
// directs the others.
#pragma once

#include <memory>

#include "harness/measured_device.hpp"
#include "harness/mpi/ranks.hpp"

namespace ferry::bench {

// On rank 0. Throws as a DeviceMaker does.
std::unique_ptr<MeasuredDevice> make_ranks_device(const Ranks& world, const Plan& plan);

// On rank 0: ends serve() on the others, which return the status.
void dismiss(const Ranks& world, int status);
// On all others.
int serve(const Ranks& world);

// "MPICH Version: 4.0.2". Also where MPI is not initialised.
std::string mpi_library_version();

}  // namespace ferry::bench
