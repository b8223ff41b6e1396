// What MPI_Finalize ends: transfers that are under way, and the storage that files share.
#include <mpi.h>

#include "collective/kept_storage.hpp"
#include "collective/orders.hpp"

namespace ferry::collective {
namespace {

// MPI calls it first of all in MPI_Finalize, where ranks can still exchange messages.
int complete_all(MPI_Comm /*communicator*/, int /*key*/, void* /*value*/, void* /*state*/) {
  Orders::finish_those_of_all_files();
  release_kept_storage();
  return MPI_SUCCESS;
}

bool ask_mpi() {
  int is_initialized = 0;  // a program of sessions has no such communicator
  MPI_Initialized(&is_initialized);
  int key = MPI_KEYVAL_INVALID;
  return is_initialized != 0 &&
         MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, complete_all, &key, nullptr) ==
             MPI_SUCCESS &&
         MPI_Comm_set_attr(MPI_COMM_SELF, key, nullptr) == MPI_SUCCESS;
}

}  // namespace

bool complete_before_finalize() {
  static const bool is_asked = ask_mpi();
  return is_asked;
}

}  // namespace ferry::collective
