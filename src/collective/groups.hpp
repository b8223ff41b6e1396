// Communicators of groups of ranks, kept for the next file that is opened by the same ranks.
#pragma once

#include <mpi.h>

namespace ferry::collective {

// Collective: a communicator of those ranks of `communicator` that name the same `group` of
// `groups`, in their order. It is kept with `communicator`, as an MPI attribute: splitting waits by
// polling, which is slow where ranks share CPUs. So a rank names the same group whenever it names
// as many, and nobody frees what is returned: that happens with `communicator`, or when a call with
// another number of groups takes its place.
MPI_Comm group_communicator(MPI_Comm communicator, int groups, int group);

}  // namespace ferry::collective
