// What an MPI datatype is made of.
#pragma once

#include <mpi.h>

namespace ferry::collective {

// Whether it is predefined. Also of datatypes with large counts, where the MPI library has them.
bool is_named(MPI_Datatype type);

}  // namespace ferry::collective
