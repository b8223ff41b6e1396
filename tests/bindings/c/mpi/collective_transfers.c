// What ranks write together is in the file, byte for byte, and they read it back.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>

#include "check_ranks.h"

enum {
  block_bytes = 3000,
  blocks = 5,
};

static unsigned char mine[blocks * block_bytes];
static unsigned char got[sizeof mine];

static ferry_mpi_file* open_new(const char* path, const ferry_mpi_options* options) {
  ferry_mpi_file* file = NULL;
  CHECK_ALL(ferry_mpi_open(&file, MPI_COMM_WORLD, path, O_CREAT | O_TRUNC | O_RDWR, 0600,
                           MPI_INFO_NULL, options),
            0);
  CHECK(file != NULL);
  return file;
}

// Rank 0 reads the file without Ferry, and removes it.
static void expect_contents(const char* path, const unsigned char* want, uint64_t bytes) {
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) {
    FILE* file = fopen(path, "rb");
    unsigned char* found = malloc(bytes + 1);
    CHECK(file != NULL && found != NULL);
    CHECK_EQUAL((int64_t)fread(found, 1, bytes + 1, file), (int64_t)bytes);
    CHECK(memcmp(found, want, bytes) == 0);
    fclose(file);
    free(found);
    CHECK_EQUAL(unlink(path), 0);
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

static void expect_pattern(const char* path, uint64_t bytes) {
  unsigned char* want = malloc(bytes);
  CHECK(want != NULL);
  fill(want, bytes, 0);
  expect_contents(path, want, bytes);
  free(want);
}

// What this rank has of a file whose blocks go round the ranks.
static void fill_strided(void) {
  for (int i = 0; i < blocks; ++i)
    fill(mine + i * block_bytes, block_bytes, (uint64_t)(i * ranks + rank) * block_bytes);
}

static void strided(void) {
  ferry_mpi_map* view = NULL;
  ferry_mpi_file* file = open_new("strided", NULL);
  CHECK_EQUAL(ferry_mpi_map_strided(&view, blocks, block_bytes, (int64_t)ranks * block_bytes), 0);
  CHECK_ALL(ferry_mpi_set_view(file, (int64_t)rank * block_bytes, view, FERRY_MPI_ORDER_NATIVE, 1),
            0);
  CHECK_EQUAL(ferry_mpi_map_free(view), 0);  // the view does not need it
  fill_strided();
  CHECK_ALL(ferry_mpi_write_all(file, mine, sizeof mine), sizeof mine);
  CHECK_ALL(ferry_mpi_sync(file), 0);
  CHECK_ALL(ferry_mpi_size(file), (int64_t)sizeof mine * ranks);
  CHECK_ALL(ferry_mpi_read_at_all(file, 0, got, sizeof got), sizeof got);
  CHECK(memcmp(mine, got, sizeof got) == 0);
  // A position that the write moved: nothing is behind it.
  CHECK_ALL(ferry_mpi_read_all(file, got, sizeof got), 0);
  // By this rank alone, through the view, across blocks.
  memset(got, 0, sizeof got);
  CHECK_EQUAL(ferry_mpi_read_at(file, 100, got, 2 * block_bytes), 2 * block_bytes);
  CHECK(memcmp(got, mine + 100, 2 * block_bytes) == 0);
  MPI_Barrier(MPI_COMM_WORLD);
  CHECK_EQUAL(ferry_mpi_write_at(file, 100, got, 2 * block_bytes), 2 * block_bytes);
  CHECK_ALL(ferry_mpi_close(file), 0);
  expect_pattern("strided", sizeof mine * (uint64_t)ranks);
}

// Each rank has some columns of a matrix of 12 rows.
static void subarray(void) {
  enum { rows = 12, columns = 10 };
  const int64_t sizes[2] = {rows, (int64_t)columns * ranks};
  const int64_t subsizes[2] = {rows, columns};
  const int64_t starts[2] = {0, (int64_t)columns * rank};
  int32_t values[rows][columns];
  int32_t back[rows][columns];
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < columns; ++j)
      values[i][j] = (int32_t)(i * sizes[1] + starts[1] + j);
  ferry_mpi_map* view = NULL;
  ferry_mpi_file* file = open_new("subarray", NULL);
  CHECK_EQUAL(ferry_mpi_map_subarray(&view, 2, sizes, subsizes, starts, sizeof(int32_t)), 0);
  CHECK_ALL(ferry_mpi_set_view(file, 0, view, FERRY_MPI_ORDER_BIG, sizeof(int32_t)), 0);
  CHECK_ALL(ferry_mpi_write_all(file, values, sizeof values), sizeof values);
  CHECK_ALL(ferry_mpi_read_at_all(file, 0, back, sizeof back), sizeof back);
  CHECK(memcmp(values, back, sizeof back) == 0);
  CHECK_EQUAL(ferry_mpi_map_free(view), 0);
  CHECK_ALL(ferry_mpi_close(file), 0);
  const uint64_t count = (uint64_t)rows * columns * (uint64_t)ranks;
  unsigned char* want = malloc(4 * count);
  CHECK(want != NULL);
  for (uint64_t i = 0; i < count; ++i)
    for (int byte = 0; byte < 4; ++byte)
      want[4 * i + (uint64_t)byte] = (unsigned char)(i >> (24 - 8 * byte));
  expect_contents("subarray", want, 4 * count);
  free(want);
}

// The view is an MPI datatype, the memory a list that goes backwards.
static void mapped(void) {
  MPI_Datatype type;
  MPI_Type_vector(blocks, block_bytes, ranks * block_bytes, MPI_BYTE, &type);
  ferry_mpi_map* view = NULL;
  ferry_mpi_map* memory = NULL;
  CHECK_EQUAL(ferry_mpi_map_datatype(&view, type), 0);
  MPI_Type_free(&type);
  ferry_mpi_extent extents[blocks];
  for (int i = 0; i < blocks; ++i) {
    extents[i].offset_bytes = (int64_t)(blocks - 1 - i) * block_bytes;
    extents[i].bytes = block_bytes;
  }
  CHECK_EQUAL(ferry_mpi_map_list(&memory, extents, blocks, -1), 0);
  ferry_mpi_file* file = open_new("mapped", NULL);
  CHECK_ALL(ferry_mpi_set_view(file, (int64_t)rank * block_bytes, view, 0, 1), 0);
  for (int i = 0; i < blocks; ++i)
    fill(mine + (blocks - 1 - i) * block_bytes, block_bytes,
         (uint64_t)(i * ranks + rank) * block_bytes);
  CHECK_ALL(ferry_mpi_write_mapped_at_all(file, 0, mine, memory, 1), sizeof mine);
  memset(got, 0, sizeof got);
  CHECK_ALL(ferry_mpi_read_mapped_at_all(file, 0, got, memory, 1), sizeof got);
  CHECK(memcmp(mine, got, sizeof got) == 0);
  CHECK_EQUAL(ferry_mpi_map_free(view), 0);
  CHECK_EQUAL(ferry_mpi_map_free(memory), 0);
  CHECK_ALL(ferry_mpi_close(file), 0);
  expect_pattern("mapped", sizeof mine * (uint64_t)ranks);
}

static void nonblocking(void) {
  ferry_mpi_map* all = NULL;
  ferry_mpi_map* half = NULL;
  ferry_mpi_transfer* transfers[4];
  ferry_mpi_file* file = open_new("nonblocking", NULL);
  const int64_t begin = (int64_t)rank * (int64_t)sizeof mine;
  CHECK_EQUAL(ferry_mpi_map_contiguous(&all, 1), 0);
  CHECK_EQUAL(ferry_mpi_map_contiguous(&half, sizeof mine / 2), 0);
  CHECK_ALL(ferry_mpi_set_view(file, begin, all, 0, 1), 0);
  fill(mine, sizeof mine, (uint64_t)begin);
  memset(got, 0, sizeof got);
  CHECK_EQUAL(ferry_mpi_iwrite_at_all(&transfers[0], file, 0, mine, block_bytes), 0);
  CHECK_EQUAL(ferry_mpi_iwrite_mapped_at_all(&transfers[1], file, 0, mine, half, 2), 0);
  CHECK_EQUAL(ferry_mpi_iread_at_all(&transfers[2], file, 0, got, block_bytes), 0);
  CHECK_EQUAL(ferry_mpi_iread_mapped_at_all(&transfers[3], file, 0, got, half, 2), 0);
  CHECK_EQUAL(ferry_mpi_transfer_wait(transfers[3]), sizeof got);
  CHECK_EQUAL(ferry_mpi_transfer_test(transfers[0]), 1);  // in the order of their starts
  CHECK_EQUAL(ferry_mpi_transfer_wait(transfers[0]), block_bytes);
  CHECK_EQUAL(ferry_mpi_transfer_wait(transfers[0]), block_bytes);
  CHECK(memcmp(mine, got, sizeof got) == 0);
  for (int i = 0; i < 4; ++i)
    CHECK_EQUAL(ferry_mpi_transfer_free(transfers[i]), 0);
  CHECK_EQUAL(ferry_mpi_transfer_wait(transfers[0]), -EBADF);
  // At the position, which moves when they start.
  CHECK_EQUAL(ferry_mpi_iwrite_all(&transfers[0], file, mine, block_bytes), 0);
  CHECK_EQUAL(ferry_mpi_iread_all(&transfers[1], file, got, block_bytes), 0);
  CHECK_EQUAL(ferry_mpi_transfer_wait(transfers[1]), block_bytes);
  CHECK(memcmp(mine + block_bytes, got, block_bytes) == 0);
  CHECK_EQUAL(ferry_mpi_transfer_free(transfers[0]), 0);
  CHECK_EQUAL(ferry_mpi_transfer_free(transfers[1]), 0);
  CHECK_EQUAL(ferry_mpi_map_free(all), 0);
  CHECK_EQUAL(ferry_mpi_map_free(half), 0);
  // One that is waited for when the file is closed, and one that nobody waits for.
  CHECK_EQUAL(ferry_mpi_iwrite_at_all(&transfers[0], file, 0, mine, 10), 0);
  CHECK_EQUAL(ferry_mpi_iwrite_at_all(&transfers[1], file, 10, mine + 10, 20), 0);
  CHECK_EQUAL(ferry_mpi_transfer_free(transfers[1]), 0);
  CHECK_ALL(ferry_mpi_close(file), 0);
  CHECK_EQUAL(ferry_mpi_transfer_wait(transfers[0]), 10);
  CHECK_EQUAL(ferry_mpi_transfer_free(transfers[0]), 0);
  expect_pattern("nonblocking", sizeof mine * (uint64_t)ranks);
}

// One writer, by an option and by a hint, and what the statistics tell of it.
static void choices(void) {
  char text[4096];
  char short_text[10];
  int writers[2] = {-1, -1};
  ferry_mpi_options options = FERRY_MPI_OPTIONS_INIT;
  options.write_method = FERRY_MPI_METHOD_AGGREGATE;
  options.writers = 1;
  options.buffer_bytes = 1 << 20;
  options.progress_thread = FERRY_MPI_OFF;
  options.write_out = FERRY_MPI_AUTOMATIC;
  options.quiet = 1;
  ferry_mpi_file* file = open_new("choices", &options);
  fill(mine, block_bytes, (uint64_t)rank * block_bytes);
  CHECK_ALL(ferry_mpi_write_at_all(file, (int64_t)rank * block_bytes, mine, block_bytes),
            block_bytes);
  CHECK_ALL(ferry_mpi_writers(file, writers, 2), 1);
  CHECK_ALL(writers[0], 0);
  CHECK_EQUAL(writers[1], -1);
  CHECK_EQUAL(ferry_mpi_writers(file, NULL, 0), 1);
  CHECK_ALL(ferry_mpi_sync(file), 0);
  ferry_mpi_statistics statistics = FERRY_MPI_STATISTICS_INIT;
  CHECK_ALL(ferry_mpi_get_statistics(file, &statistics), 0);
  CHECK_EQUAL((int64_t)statistics.struct_bytes, sizeof statistics);
  CHECK_ALL(statistics.method, FERRY_MPI_METHOD_AGGREGATE);
  CHECK_ALL(statistics.writers, 1);
  CHECK_ALL((int64_t)statistics.buffer_bytes, 1 << 20);
  CHECK_ALL((int64_t)statistics.storage_bytes, (int64_t)block_bytes * ranks);
  CHECK(statistics.maximum.sync_ns > 0 && statistics.maximum.sync_ns >= statistics.mean.sync_ns);
  CHECK(statistics.mean.file_io_ns > 0);
  const int64_t length = ferry_mpi_explain(file, text, sizeof text);
  CHECK_EQUAL(length, (int64_t)strlen(text));
  CHECK(strstr(text, "\"method\":\"aggregate\"") != NULL);
  CHECK(ferry_mpi_explain(file, short_text, sizeof short_text) > (int64_t)sizeof short_text);
  CHECK_EQUAL((int64_t)strlen(short_text), sizeof short_text - 1);
  CHECK(ferry_mpi_explain(file, NULL, 0) > 0);
  CHECK_ALL(ferry_mpi_resize(file, block_bytes - 1), 0);
  CHECK_ALL(ferry_mpi_size(file), block_bytes - 1);
  CHECK_ALL(ferry_mpi_close(file), 0);
  expect_pattern("choices", block_bytes - 1);

  MPI_Info hints;
  MPI_Info_create(&hints);
  MPI_Info_set(hints, "cb_nodes", "1");
  MPI_Info_set(hints, "ferry_no_such_hint", "x");
  CHECK_ALL(
      ferry_mpi_open(&file, MPI_COMM_WORLD, "choices", O_CREAT | O_RDWR, 0600, hints, &options), 0);
  MPI_Info_free(&hints);
  CHECK(ferry_mpi_warnings(file, text, sizeof text) > 0);
  CHECK(strstr(text, "ferry_no_such_hint") != NULL);
  CHECK_EQUAL(ferry_mpi_get_hints(file, &hints), 0);
  int found = 0;
  char value[MPI_MAX_INFO_VAL + 1];
  MPI_Info_get(hints, "cb_nodes", MPI_MAX_INFO_VAL, value, &found);
  CHECK(found && strcmp(value, "1") == 0);
  MPI_Info_free(&hints);
  CHECK_ALL(ferry_mpi_close(file), 0);
  if (rank == 0) CHECK_EQUAL(unlink("choices"), 0);
}

// A file for each rank.
static void files(void) {
  char path[32];
  ferry_mpi_options options = FERRY_MPI_OPTIONS_INIT;
  options.files = (uint32_t)ranks;
  ferry_mpi_file* file = open_new("files", &options);
  fill(mine, sizeof mine, 0);
  CHECK_ALL(ferry_mpi_write_all(file, mine, sizeof mine), sizeof mine);
  CHECK_ALL(ferry_mpi_close(file), 0);
  for (int i = 0; i < ranks; ++i) {
    snprintf(path, sizeof path, "files.%d", i);
    expect_pattern(path, sizeof mine);
  }
}

void collective_transfers(void) {
  strided();
  subarray();
  mapped();
  nonblocking();
  choices();
  files();
}
