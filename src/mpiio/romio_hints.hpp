// What users of ROMIO set for all files by the environment, and Ferry takes in the same way: a file
// of hints, and the print-out of those in force.
#pragma once

#include <map>
#include <string>

#include <mpi.h>

namespace ferry::mpiio {

// The hints of the file that ROMIO_HINTS names, or else of /etc/romio-hints: lines of a name and a
// value. They count where a file's info has none of that name.
std::map<std::string, std::string> hints_of_the_environment();

// Whether the user wants to see the hints of each file (ROMIO_PRINT_HINTS).
bool shall_print_hints();
// To standard output.
void print_hints(MPI_Info info);

}  // namespace ferry::mpiio
