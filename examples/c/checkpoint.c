// ferry-checkpoint-c write|read FILE: the checkpoint of examples/checkpoint in C, and the same
// file.
//
//   mpicc -std=c11 -Wall checkpoint.c $(pkg-config --cflags --libs ferry-mpi) -o ferry-checkpoint-c
//   mpiexec -n 16 ferry-checkpoint-c write /data/field
//   mpiexec -n 9 ferry-checkpoint-c read /data/field
//
// The file is one array field[z][y][x] of doubles. The ranks divide X and Y among them.
#include <fcntl.h>
#include <ferry_mpi.h>
#include <inttypes.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int64_t sizes[3] = {20, 180, 240};  // Z, Y and X

// This rank's part.
struct block {
  int64_t starts[3];
  int64_t subsizes[3];
  int rows;  // number of ranks along Y
};

static struct block my_block(int rank, int ranks) {
  int grid[2] = {0, 0};
  MPI_Dims_create(ranks, 2, grid);
  const int64_t row = rank / grid[1];
  const int64_t column = rank % grid[1];
  struct block block = {{0, row * sizes[1] / grid[0], column * sizes[2] / grid[1]}, {0}, grid[0]};
  block.subsizes[0] = sizes[0];
  block.subsizes[1] = (row + 1) * sizes[1] / grid[0] - block.starts[1];
  block.subsizes[2] = (column + 1) * sizes[2] / grid[1] - block.starts[2];
  return block;
}

// The field's values in the block; all differ.
static void fill(double* values, const struct block* block) {
  for (int64_t z = 0; z < block->subsizes[0]; ++z)
    for (int64_t y = block->starts[1]; y < block->starts[1] + block->subsizes[1]; ++y)
      for (int64_t x = block->starts[2]; x < block->starts[2] + block->subsizes[2]; ++x)
        *values++ = (double)((z * sizes[1] + y) * sizes[2] + x);
}

static void report(ferry_mpi_file* file, int rank) {
  static char text[4096];
  if (ferry_mpi_explain(file, text, sizeof text) >= 0 && rank == 0) printf("%s\n", text);
}

// Moves the block: 0, 1 if something else was read, or a negative errno, the same on every rank.
static int64_t move(ferry_mpi_file* file, int writes, double* values, double* got, uint64_t bytes) {
  if (writes) {
    const int64_t written = ferry_mpi_write_all(file, values, bytes);
    return written < 0 ? written : ferry_mpi_sync(file);
  }
  const int64_t read = ferry_mpi_read_all(file, got, bytes);
  if (read < 0) return read;
  return (uint64_t)read != bytes || memcmp(values, got, bytes) != 0;
}

static int64_t run(int writes, const char* path, int rank, int ranks) {
  const struct block block = my_block(rank, ranks);
  const uint64_t bytes =
      (uint64_t)(block.subsizes[0] * block.subsizes[1] * block.subsizes[2]) * sizeof(double);
  double* values = malloc(bytes);
  double* got = malloc(bytes);
  if (values == NULL || got == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
  fill(values, &block);

  // One writer per row of the decomposition: what it gathers is contiguous in each plane.
  ferry_mpi_options options = FERRY_MPI_OPTIONS_INIT;
  options.writers = (uint32_t)block.rows;
  ferry_mpi_file* file = NULL;
  ferry_mpi_map* view = NULL;
  ferry_mpi_map_subarray(&view, 3, sizes, block.subsizes, block.starts, sizeof(double));
  int64_t result =
      ferry_mpi_open(&file, MPI_COMM_WORLD, path, writes ? O_CREAT | O_TRUNC | O_WRONLY : O_RDONLY,
                     0644, MPI_INFO_NULL, &options);
  if (result == 0) {
    result = ferry_mpi_set_view(file, 0, view, FERRY_MPI_ORDER_NATIVE, 1);
    if (result == 0) result = move(file, writes, values, got, bytes);
    if (result >= 0) report(file, rank);
    const int closed = ferry_mpi_close(file);
    if (result == 0) result = closed;
  }
  ferry_mpi_map_free(view);
  free(values);
  free(got);
  return result;
}

int main(int argc, char** argv) {
  int rank = 0;
  int ranks = 1;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const char* verb = argc == 3 ? argv[1] : "";
  int status = 2;
  if (strcmp(verb, "write") != 0 && strcmp(verb, "read") != 0) {
    if (rank == 0) fprintf(stderr, "usage: ferry-checkpoint-c write|read FILE\n");
  } else {
    const int64_t result = run(verb[0] == 'w', argv[2], rank, ranks);
    if (result < 0 && rank == 0)
      fprintf(stderr, "ferry-checkpoint-c: %s\n", ferry_mpi_error_text());
    if (result > 0) fprintf(stderr, "ferry-checkpoint-c: rank %d has read something else\n", rank);
    status = result != 0;
    MPI_Allreduce(MPI_IN_PLACE, &status, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  }
  MPI_Finalize();
  return status;
}
