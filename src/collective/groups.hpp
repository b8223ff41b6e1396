// Communicators for groups of ranks, cached for the next file of the same ranks.
#pragma once

#include <mpi.h>

namespace ferry::collective {

// Collective: a communicator of the ranks of `communicator` with the same `group` of `groups`, in
// their order. Cached as an MPI attribute of `communicator`, because splitting polls, which is slow
// where ranks share CPUs. So a rank's group must depend only on the number of groups, and callers
// do not free the result: `communicator` does, or the next call with another number.
MPI_Comm group_communicator(MPI_Comm communicator, int groups, int group);

}  // namespace ferry::collective
