// Checks of test programs in C that run on many ranks.
#ifndef FERRY_TESTS_CHECK_RANKS_H
#define FERRY_TESTS_CHECK_RANKS_H

#include <ferry_mpi.h>
#define CHECK_ERROR_TEXT ferry_mpi_error_text
#include "../check.h"

extern int rank;
extern int ranks;

// A collective call must give the same on all ranks; 0 unless it fails.
#define CHECK_ALL(got, want)                                                             \
  do {                                                                                   \
    int64_t check_ends[2];                                                               \
    const int64_t check_mine = (got);                                                    \
    check_ends[0] = check_mine;                                                          \
    check_ends[1] = -check_mine;                                                         \
    MPI_Allreduce(MPI_IN_PLACE, check_ends, 2, MPI_INT64_T, MPI_MIN, MPI_COMM_WORLD);    \
    if (check_ends[0] != -check_ends[1] || check_mine != (want)) {                       \
      fprintf(stderr,                                                                    \
              "%s:%d: rank %d: %s is %" PRId64 ", of all ranks %" PRId64 " to %" PRId64  \
              " (last error: %s)\n",                                                     \
              __FILE__, __LINE__, rank, #got, check_mine, check_ends[0], -check_ends[1], \
              ferry_mpi_error_text());                                                   \
      exit(1);                                                                           \
    }                                                                                    \
  } while (0)

// Each in a file of its own.
void collective_transfers(void);
void collective_wrong_input(void);

#endif
