// Errors of Ferry as those of MPI.
#pragma once

#include <mpi.h>

#include <ferry/error.hpp>

namespace ferry::mpiio {

// A code of the class that fits the errno; text_of() gives the error's text for it. MPI never frees
// codes, so the texts are limited: after `texts_max` different ones, codes have the text of their
// class.
inline constexpr int texts_max = 256;
int code_of(const std::system_error& error);

// The code of the exception that is being handled.
int code_of_exception();

// The text of a code of Ferry's; null for others. Stays as long as the program. Any thread.
const char* text_of(int code);

// Gives an error to the error handler of a file. Where the MPI library would end the program with
// another text, Ferry's goes to standard error before.
void call_handler(MPI_File handle, int code);

}  // namespace ferry::mpiio
