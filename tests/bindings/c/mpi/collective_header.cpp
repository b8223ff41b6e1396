// ferry_mpi.h is C++ as well, from C++11 on. Compiled, and not run.
#include <ferry_mpi.h>

extern const ferry_mpi_options options_of_header;
extern const ferry_mpi_statistics statistics_of_header;
const ferry_mpi_options options_of_header = FERRY_MPI_OPTIONS_INIT;
const ferry_mpi_statistics statistics_of_header = FERRY_MPI_STATISTICS_INIT;
