// What an MPI datatype is made of.
#pragma once

#include <mpi.h>

namespace ferry::collective {

// Whether it is predefined. Also of datatypes with large counts, where the MPI library has them.
bool is_named(MPI_Datatype type);

// The size of the numbers that it is made of, if all have the same and keep it in MPI's
// "external32"; else 0.
int element_bytes(MPI_Datatype type);

}  // namespace ferry::collective
