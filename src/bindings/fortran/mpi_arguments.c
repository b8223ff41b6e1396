// Communicators, hints and datatypes of Fortran, which are integers, for ferry_mpi.h.
#include <ferry_mpi.h>

_Static_assert(sizeof(MPI_Fint) == sizeof(int), "the module passes integer(c_int)");

int ferry_fortran_mpi_open(ferry_mpi_file** file, MPI_Fint communicator, const char* path,
                           int flags, uint32_t mode, MPI_Fint hints,
                           const ferry_mpi_options* options);
int ferry_fortran_mpi_refuse_open(MPI_Fint communicator, const char* path, const char* why);
int ferry_fortran_mpi_map_datatype(ferry_mpi_map** map, MPI_Fint datatype);
int ferry_fortran_mpi_get_hints(ferry_mpi_file* file, MPI_Fint* hints);
MPI_Fint ferry_fortran_mpi_no_hints(void);

// Handles can be converted only between MPI's initialisation and finalisation; ferry_mpi_open()
// says so.
static int is_running(void) {
  int initialised = 0;
  int finalised = 0;
  MPI_Initialized(&initialised);
  MPI_Finalized(&finalised);
  return initialised && !finalised;
}

static MPI_Comm communicator_of(MPI_Fint communicator) {
  return is_running() ? MPI_Comm_f2c(communicator) : MPI_COMM_NULL;
}

int ferry_fortran_mpi_open(ferry_mpi_file** file, MPI_Fint communicator, const char* path,
                           int flags, uint32_t mode, MPI_Fint hints,
                           const ferry_mpi_options* options) {
  return ferry_mpi_open(file, communicator_of(communicator), path, flags, mode,
                        is_running() ? MPI_Info_f2c(hints) : MPI_INFO_NULL, options);
}

int ferry_fortran_mpi_refuse_open(MPI_Fint communicator, const char* path, const char* why) {
  return ferry_mpi_refuse_open(communicator_of(communicator), path, why);
}

int ferry_fortran_mpi_map_datatype(ferry_mpi_map** map, MPI_Fint datatype) {
  return ferry_mpi_map_datatype(map, is_running() ? MPI_Type_f2c(datatype) : MPI_DATATYPE_NULL);
}

int ferry_fortran_mpi_get_hints(ferry_mpi_file* file, MPI_Fint* hints) {
  MPI_Info found = MPI_INFO_NULL;
  const int result = ferry_mpi_get_hints(file, &found);
  *hints = MPI_Info_c2f(found);
  return result;
}

MPI_Fint ferry_fortran_mpi_no_hints(void) {
  return MPI_Info_c2f(MPI_INFO_NULL);
}
