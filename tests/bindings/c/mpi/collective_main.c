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

enum {
  late_writes = 8,
  late_bytes = 2 << 20,
};
static unsigned char late[late_bytes];

// Starts writes that are under way when MPI ends. Returns their file, by another way.
static FILE* start_late_writes(ferry_mpi_file** file) {
  CHECK_EQUAL(
      ferry_mpi_open(file, MPI_COMM_WORLD, "late", O_CREAT | O_RDWR, 0600, MPI_INFO_NULL, NULL), 0);
  FILE* plain = fopen("late", "rb");
  CHECK(plain != NULL);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) CHECK_EQUAL(unlink("late"), 0);
  fill(late, late_bytes, (uint64_t)rank * late_bytes);
  for (int64_t i = 0; i < late_writes; ++i) {
    ferry_mpi_transfer* transfer = NULL;
    CHECK_EQUAL(ferry_mpi_iwrite_at_all(&transfer, *file, (i * ranks + rank) * late_bytes, late,
                                        late_bytes),
                0);
  }
  return plain;
}

// What this rank has written is there, as soon as those that write for it have ended MPI, too.
static void expect_late_writes(FILE* plain) {
  unsigned char* found = malloc(late_bytes);
  CHECK(found != NULL);
  setbuf(plain, NULL);
  for (int64_t i = 0; i < late_writes;) {
    CHECK_EQUAL(fseeko(plain, (i * ranks + rank) * late_bytes, SEEK_SET), 0);
    if (fread(found, 1, late_bytes, plain) == late_bytes && memcmp(found, late, late_bytes) == 0) {
      ++i;
    } else {
      usleep(1000);  // until the alarm
    }
  }
  free(found);
  fclose(plain);
}

int main(int argc, char** argv) {
  alarm(60);  // a rank that fails must not leave others waiting for ever
  CHECK(ferry_mpi_error_text()[0] == '\0');
  expect_no_mpi("not initialised", NULL, NULL);
  int provided = 0;
  const int wanted =
      getenv("FERRY_TEST_ONE_THREAD") != NULL ? MPI_THREAD_SINGLE : MPI_THREAD_MULTIPLE;
  MPI_Init_thread(&argc, &argv, wanted, &provided);
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
  // Where a thread has them under way, MPICH 4.0 may abort in MPI_Finalize, without Ferry, too.
  ferry_mpi_file* late_file = NULL;
  FILE* plain = provided < MPI_THREAD_MULTIPLE ? start_late_writes(&late_file) : NULL;
  if (rank == 0) leave_scratch();
  MPI_Finalize();
  expect_no_mpi("finalised", left_open, transfer);
  if (plain != NULL) {
    expect_no_mpi("finalised", late_file, transfer);
    expect_late_writes(plain);
  }
  return 0;
}
