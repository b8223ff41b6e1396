// Runs the tests of ferry_mpi.h on every rank, in a folder that rank 0 makes.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>

#include "check_ranks.h"

int rank;
int ranks;

static void expect_no_mpi(const char* why, ferry_mpi_file* left_open,
                          ferry_mpi_transfer* transfer) {
  ferry_mpi_file* file = (ferry_mpi_file*)scratch_folder;  // is set to NULL
  ferry_mpi_map* map = NULL;
  CHECK_EQUAL(ferry_mpi_open(&file, MPI_COMM_WORLD, "x", O_RDONLY, 0, MPI_INFO_NULL, NULL),
              -EINVAL);
  CHECK(file == NULL);
  CHECK_TEXT(why);
  CHECK_EQUAL(ferry_mpi_map_datatype(&map, MPI_INT), -EINVAL);
  CHECK_TEXT(why);
  CHECK_EQUAL(ferry_mpi_size(left_open), -EINVAL);
  CHECK_TEXT(why);
  CHECK_EQUAL(ferry_mpi_transfer_wait(transfer), -EINVAL);
  CHECK_TEXT(why);
  CHECK_EQUAL(ferry_mpi_close(left_open), -EINVAL);
  CHECK_TEXT(why);
}

int main(int argc, char** argv) {
  alarm(60);  // a rank that fails must not leave others waiting for ever
  CHECK(ferry_mpi_error_text()[0] == '\0');
  expect_no_mpi("not initialised", NULL, NULL);
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (rank == 0) enter_scratch();
  MPI_Bcast(scratch_folder, sizeof scratch_folder, MPI_CHAR, 0, MPI_COMM_WORLD);
  CHECK_EQUAL(chdir(scratch_folder), 0);
  collective_transfers();
  collective_wrong_input();
  ferry_mpi_file* left_open = NULL;
  ferry_mpi_transfer* transfer = NULL;
  CHECK_EQUAL(ferry_mpi_open(&left_open, MPI_COMM_WORLD, "left-open", O_CREAT | O_RDWR, 0600,
                             MPI_INFO_NULL, NULL),
              0);
  CHECK_EQUAL(ferry_mpi_iwrite_at_all(&transfer, left_open, 0, NULL, 0), 0);
  CHECK_EQUAL(ferry_mpi_transfer_wait(transfer), 0);
  if (rank == 0) CHECK_EQUAL(unlink("left-open"), 0);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) leave_scratch();
  MPI_Finalize();
  expect_no_mpi("finalised", left_open, transfer);
  return 0;
}
