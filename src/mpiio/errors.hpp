// Errors of Ferry as those of MPI.
#pragma once

#include <mpi.h>

#include <ferry/error.hpp>

namespace ferry::mpiio {

// A code of the class that fits the errno; MPI_Error_string gives the error's text for it. MPI
// never frees codes, so the texts are limited: after `texts_max` different ones, codes have the
// text of their class.
inline constexpr int texts_max = 256;
int code_of(const std::system_error& error);

// The code of the exception that is being handled.
int code_of_exception();

}  // namespace ferry::mpiio
