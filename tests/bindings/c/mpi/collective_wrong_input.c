// What one rank gets wrong is the same errno on all, and a text that names that rank.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>

#include "check_ranks.h"

static unsigned char memory[64];
static char culprit[32];

// Whether this rank makes the mistake: the last one.
static int is_wrong(void) {
  return rank == ranks - 1;
}

// A collective call that fails, on all ranks, because of the last one.
#define CHECK_REFUSED(got, error, part) \
  do {                                  \
    CHECK_ALL(got, error);              \
    CHECK_TEXT(part);                   \
    CHECK_TEXT(culprit);                \
  } while (0)

static int open_with(const char* path, int flags, const ferry_mpi_options* options) {
  ferry_mpi_file* file = (ferry_mpi_file*)memory;  // is set to NULL
  const int result =
      ferry_mpi_open(&file, MPI_COMM_WORLD, path, flags, 0600, MPI_INFO_NULL, options);
  CHECK(file == NULL);
  return result;
}

static void opening(void) {
  CHECK_ALL(open_with("missing", O_RDONLY, NULL), -ENOENT);
  CHECK_TEXT("missing");
  CHECK_ALL(open_with("nfs://", O_RDONLY, NULL), -EINVAL);
  CHECK_ALL(open_with("x", O_CREAT | O_RDWR | O_APPEND, NULL), -EINVAL);
  CHECK_REFUSED(open_with(is_wrong() ? NULL : "x", O_CREAT | O_RDWR, NULL), -EINVAL,
                "path is NULL");
  ferry_mpi_options options = FERRY_MPI_OPTIONS_INIT;
  if (is_wrong()) options.write_method = 5;
  CHECK_REFUSED(open_with("x", O_CREAT | O_RDWR, &options), -EINVAL, "write_method");
  options.write_method = 0;
  if (is_wrong()) options.node_merge = FERRY_MPI_AUTOMATIC;
  CHECK_REFUSED(open_with("x", O_CREAT | O_RDWR, &options), -EINVAL, "node_merge");
  options.node_merge = 0;
  if (is_wrong()) options.buffer_bytes = UINT64_MAX;
  CHECK_REFUSED(open_with("x", O_CREAT | O_RDWR, &options), -EINVAL, "buffer_bytes");
  options.buffer_bytes = 0;
  if (is_wrong()) options.struct_bytes = 3;
  CHECK_REFUSED(open_with("x", O_CREAT | O_RDWR, &options), -EINVAL, "struct_bytes");
  ferry_mpi_file* file = NULL;
  CHECK_EQUAL(ferry_mpi_open(&file, MPI_COMM_NULL, "x", O_RDONLY, 0, MPI_INFO_NULL, NULL), -EINVAL);
  CHECK_TEXT("MPI_COMM_NULL");
  // The first of two says for all ranks of another language why it cannot open.
  if (is_wrong()) {
    CHECK_ALL(ferry_mpi_refuse_open(MPI_COMM_WORLD, "x", "no such word"), -EINVAL);
  } else {
    CHECK_ALL(open_with("x", O_CREAT | O_RDWR, NULL), -EINVAL);
  }
  CHECK_TEXT("no such word");
  CHECK_ALL(access("x", F_OK), -1);  // no file was made
}

static void maps(void) {
  const int64_t sizes[2] = {4, 4};
  const int64_t starts[2] = {3, 0};
  ferry_mpi_map* map = (ferry_mpi_map*)memory;
  CHECK_EQUAL(ferry_mpi_map_contiguous(NULL, 1), -EINVAL);
  CHECK_EQUAL(ferry_mpi_map_contiguous(&map, -1), -EINVAL);
  CHECK(map == NULL);
  CHECK_EQUAL(ferry_mpi_map_strided(&map, INT64_MAX, INT64_MAX, 8), -EINVAL);
  CHECK_EQUAL(ferry_mpi_map_subarray(&map, 0, sizes, sizes, starts, 1), -EINVAL);
  CHECK_EQUAL(ferry_mpi_map_subarray(&map, 65, sizes, sizes, starts, 1), -EINVAL);
  CHECK_TEXT("dimensions");
  CHECK_EQUAL(ferry_mpi_map_subarray(&map, 2, sizes, NULL, starts, 1), -EINVAL);
  CHECK_TEXT("subsizes is NULL");
  CHECK_EQUAL(ferry_mpi_map_subarray(&map, 2, sizes, sizes, starts, 1), -EINVAL);  // sticks out
  CHECK_EQUAL(ferry_mpi_map_list(&map, NULL, 1, -1), -EINVAL);
  CHECK_EQUAL(ferry_mpi_map_list(&map, NULL, UINT64_MAX, -1), -EINVAL);
  CHECK_EQUAL(ferry_mpi_map_datatype(&map, MPI_DATATYPE_NULL), -EINVAL);
  CHECK_EQUAL(ferry_mpi_map_free(NULL), -EINVAL);
}

static void calls(void) {
  const ferry_mpi_extent backwards[2] = {{8, 4}, {0, 4}};
  ferry_mpi_file* file = NULL;
  ferry_mpi_map* map = NULL;
  ferry_mpi_map* freed = NULL;
  ferry_mpi_map* unusable = NULL;
  CHECK_ALL(ferry_mpi_open(&file, MPI_COMM_WORLD, "x", O_CREAT | O_RDWR, 0600, MPI_INFO_NULL, NULL),
            0);
  CHECK_EQUAL(ferry_mpi_map_contiguous(&map, 8), 0);
  CHECK_EQUAL(ferry_mpi_map_contiguous(&freed, 8), 0);
  CHECK_EQUAL(ferry_mpi_map_list(&unusable, backwards, 2, -1), 0);
  CHECK_EQUAL(ferry_mpi_map_free(freed), 0);
  CHECK_REFUSED(ferry_mpi_set_view(file, 0, is_wrong() ? NULL : map, 0, 1), -EINVAL, "NULL");
  CHECK_REFUSED(ferry_mpi_set_view(file, 0, is_wrong() ? freed : map, 0, 1), -EBADF, "has ended");
  CHECK_REFUSED(ferry_mpi_set_view(file, 0, is_wrong() ? unusable : map, 0, 1), -EINVAL, "view");
  CHECK_REFUSED(ferry_mpi_set_view(file, is_wrong() ? -1 : 0, map, 0, 1), -EINVAL, "view");
  CHECK_REFUSED(ferry_mpi_set_view(file, 0, map, is_wrong() ? 3 : 0, 1), -EINVAL, "byte_order");
  CHECK_ALL(ferry_mpi_set_view(file, 0, map, FERRY_MPI_ORDER_BIG, 3), -EINVAL);
  CHECK_ALL(ferry_mpi_set_view(file, 0, map, FERRY_MPI_ORDER_BIG, 99), -EINVAL);

  unsigned char* data = is_wrong() ? NULL : memory;
  CHECK_REFUSED(ferry_mpi_write_all(file, data, sizeof memory), -EINVAL, "data is NULL");
  CHECK_REFUSED(ferry_mpi_read_at_all(file, 0, data, sizeof memory), -EINVAL, "data is NULL");
  CHECK_REFUSED(ferry_mpi_read_all(file, memory, is_wrong() ? UINT64_MAX : 1), -EINVAL, "bytes");
  CHECK_REFUSED(ferry_mpi_write_at_all(file, is_wrong() ? -1 : 0, memory, 1), -EINVAL, "writing");
  CHECK_REFUSED(ferry_mpi_write_mapped_at_all(file, 0, memory, is_wrong() ? NULL : map, 1), -EINVAL,
                "NULL");
  CHECK_REFUSED(ferry_mpi_read_mapped_at_all(file, 0, data, map, 1), -EINVAL, "base is NULL");
  CHECK_REFUSED(ferry_mpi_resize(file, is_wrong() ? UINT64_MAX : 1), -EINVAL, "size_bytes");
  ferry_mpi_statistics statistics = FERRY_MPI_STATISTICS_INIT;
  CHECK_REFUSED(ferry_mpi_get_statistics(file, is_wrong() ? NULL : &statistics), -EINVAL, "NULL");
  CHECK_REFUSED(ferry_mpi_explain(file, NULL, is_wrong() ? 1 : 0), -EINVAL, "text is NULL");
  if (is_wrong()) {
    CHECK_ALL(ferry_mpi_refuse(file, FERRY_MPI_CALL_SYNC, ERANGE, "out of reach"), -ERANGE);
  } else {
    CHECK_ALL(ferry_mpi_sync(file), -ERANGE);
  }
  CHECK_TEXT("out of reach");
  CHECK_EQUAL(ferry_mpi_writers(file, NULL, 1), -EINVAL);
  CHECK_EQUAL(ferry_mpi_get_hints(file, NULL), -EINVAL);
  CHECK_EQUAL(ferry_mpi_refuse(file, 9, EINVAL, "x"), -EINVAL);

  // Nonblocking: an error of the transfer.
  ferry_mpi_transfer* transfer = NULL;
  CHECK_ALL(ferry_mpi_iwrite_at_all(&transfer, file, 0, data, 1), 0);
  CHECK_REFUSED(ferry_mpi_transfer_wait(transfer), -EINVAL, "data is NULL");
  CHECK_EQUAL(ferry_mpi_transfer_test(transfer), 1);
  CHECK_EQUAL(ferry_mpi_transfer_free(transfer), 0);
  CHECK_EQUAL(ferry_mpi_transfer_free(transfer), -EBADF);
  if (is_wrong()) {
    CHECK_ALL(ferry_mpi_irefuse(&transfer, file, FERRY_MPI_CALL_READ_ALL, EILSEQ, "odd"), 0);
  } else {
    CHECK_ALL(ferry_mpi_iread_at_all(&transfer, file, 0, memory, 1), 0);
  }
  CHECK_REFUSED(ferry_mpi_transfer_wait(transfer), -EILSEQ, "odd");
  CHECK_EQUAL(ferry_mpi_transfer_free(transfer), 0);

  // All of this leaves the file usable, and empty.
  CHECK_ALL(ferry_mpi_size(file), 0);
  CHECK_ALL(ferry_mpi_close(file), 0);
  CHECK_EQUAL(ferry_mpi_close(file), -EBADF);
  CHECK_EQUAL(ferry_mpi_write_all(file, memory, 1), -EBADF);
  CHECK_TEXT("has ended");
  CHECK_EQUAL(ferry_mpi_sync((ferry_mpi_file*)map), -EBADF);  // of another kind
  CHECK_EQUAL(ferry_mpi_sync(NULL), -EINVAL);

  CHECK_ALL(ferry_mpi_open(&file, MPI_COMM_WORLD, "x", O_RDONLY, 0, MPI_INFO_NULL, NULL), 0);
  CHECK_ALL(ferry_mpi_write_all(file, memory, 1), -EBADF);
  if (ranks > 1) {
    // Different calls: an error on all ranks, and the file is out of use.
    CHECK_ALL(is_wrong() ? ferry_mpi_sync(file) : (int)ferry_mpi_read_all(file, memory, 1),
              -EPROTO);
    CHECK_TEXT("do not match");
    CHECK_ALL(ferry_mpi_size(file), -EPROTO);
  }
  ferry_mpi_close(file);
  // Of a rank that refuses to close, the handle is gone as well.
  CHECK_ALL(ferry_mpi_open(&file, MPI_COMM_WORLD, "x", O_RDONLY, 0, MPI_INFO_NULL, NULL), 0);
  if (is_wrong()) {
    CHECK_ALL(ferry_mpi_refuse(file, FERRY_MPI_CALL_CLOSE, ERANGE, "not yet"), -ERANGE);
  } else {
    CHECK_ALL(ferry_mpi_close(file), -ERANGE);
  }
  CHECK_TEXT("not yet");
  CHECK_EQUAL(ferry_mpi_close(file), -EBADF);
  CHECK_EQUAL(ferry_mpi_map_free(map), 0);
  CHECK_EQUAL(ferry_mpi_map_free(unusable), 0);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) CHECK_EQUAL(unlink("x"), 0);
}

void collective_wrong_input(void) {
  snprintf(culprit, sizeof culprit, "rank %d", ranks - 1);
  maps();
  opening();
  calls();
}
