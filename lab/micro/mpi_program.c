// The MPI program that mpi_programs.py runs plain and under ferry run --mpi-io. It knows nothing of
// Ferry. WAY OPERATION PATTERN FILE BYTES PIECE FIRST: what each rank does with how many bytes of
// the file, after it has opened and closed FIRST; rank 0 prints the seconds of the slowest one.
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#if defined(WITH_HDF5)
#include <hdf5.h>
#endif
#if defined(WITH_PNETCDF)
#include <pnetcdf.h>
#endif

static int rank, ranks;

static void check(int good, const char* what) {
  if (good) return;
  fprintf(stderr, "rank %d: %s\n", rank, what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static void mpi(int error, const char* what) {
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  if (error == MPI_SUCCESS) return;
  MPI_Error_string(error, text, &length);
  fprintf(stderr, "rank %d: %s: %s\n", rank, what, text);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

// What lies at an offset of the file, in words of 8 bytes.
static uint64_t word_at(uint64_t offset) {
  return (offset / 8 + 1) * 0x9e3779b97f4a7c15u;
}

// Where this rank's piece number i lies, and the view that shows the pieces.
static uint64_t piece_at(const char* pattern, uint64_t i, uint64_t piece, uint64_t pieces) {
  if (strcmp(pattern, "interleaved") == 0) return (i * (uint64_t)ranks + (uint64_t)rank) * piece;
  if (strcmp(pattern, "blocks") == 0) return ((uint64_t)rank * pieces + i) * piece;
  int sizes[2] = {0, 0};  // ranks as a grid, of more columns than rows
  MPI_Dims_create(ranks, 2, sizes);
  uint64_t row = (uint64_t)(rank / sizes[0]), column = (uint64_t)(rank % sizes[0]);
  return ((row * pieces + i) * (uint64_t)sizes[0] + column) * piece;
}

static MPI_Datatype view_of(const char* pattern, uint64_t piece, uint64_t pieces) {
  MPI_Datatype view;
  uint64_t first = piece_at(pattern, 0, piece, pieces);
  uint64_t step = pieces > 1 ? piece_at(pattern, 1, piece, pieces) - first : piece;
  mpi(MPI_Type_create_hvector((int)pieces, (int)piece, (MPI_Aint)step, MPI_BYTE, &view), "type");
  mpi(MPI_Type_commit(&view), "commit");
  return view;
}

static double bare(const char* operation, const char* path, char* data, uint64_t bytes) {
  const uint64_t block = 4 << 20;
  MPI_Barrier(MPI_COMM_WORLD);
  double begin = MPI_Wtime();
  int file = open(path, O_RDWR | O_CREAT, 0600);
  check(file >= 0, "open");
  for (uint64_t done = 0; done < bytes; done += block) {
    uint64_t part = bytes - done < block ? bytes - done : block;
    off_t offset = (off_t)((uint64_t)rank * bytes + done);
    ssize_t moved = *operation == 'w' ? pwrite(file, data + done, part, offset)
                                      : pread(file, data + done, part, offset);
    check(moved == (ssize_t)part, "moved less");
  }
  close(file);
  MPI_Barrier(MPI_COMM_WORLD);
  return MPI_Wtime() - begin;
}

static double by_mpi(const char* operation, const char* pattern, const char* path, char* data,
                     uint64_t bytes, uint64_t piece) {
  uint64_t pieces = bytes / piece;
  MPI_Datatype view = view_of(pattern, piece, pieces);
  MPI_File file;
  MPI_Status status;
  int writes = *operation == 'w', count = 0;
  uint64_t first = piece_at(pattern, 0, piece, pieces);
  MPI_Barrier(MPI_COMM_WORLD);
  double begin = MPI_Wtime();
  int mode = writes ? MPI_MODE_CREATE | MPI_MODE_WRONLY : MPI_MODE_RDONLY;
  mpi(MPI_File_open(MPI_COMM_WORLD, path, mode, MPI_INFO_NULL, &file), "open");
  mpi(MPI_File_set_view(file, (MPI_Offset)first, MPI_BYTE, view, "native", MPI_INFO_NULL), "view");
  mpi(writes ? MPI_File_write_at_all(file, 0, data, (int)bytes, MPI_BYTE, &status)
             : MPI_File_read_at_all(file, 0, data, (int)bytes, MPI_BYTE, &status),
      "transfer");
  mpi(MPI_File_close(&file), "close");
  double seconds = MPI_Wtime() - begin;
  MPI_Get_count(&status, MPI_BYTE, &count);
  check(count == (int)bytes, "moved less");
  MPI_Type_free(&view);
  return seconds;
}

#if defined(WITH_HDF5)
// Numbers in rows of 512, in chunks of 64 rows; this rank has every ranks-th column.
static double by_hdf5(const char* operation, const char* path, char* data, uint64_t bytes) {
  hsize_t width = 512, height = bytes * (uint64_t)ranks / 8 / width;
  hsize_t sizes[2] = {height, width}, chunk[2] = {64, width};
  hsize_t start[2] = {0, (hsize_t)rank}, stride[2] = {1, (hsize_t)ranks},
          count[2] = {height, width / (hsize_t)ranks};
  int writes = *operation == 'w';
  MPI_Barrier(MPI_COMM_WORLD);
  double begin = MPI_Wtime();
  hid_t access = H5Pcreate(H5P_FILE_ACCESS), transfer = H5Pcreate(H5P_DATASET_XFER);
  H5Pset_fapl_mpio(access, MPI_COMM_WORLD, MPI_INFO_NULL);
  H5Pset_dxpl_mpio(transfer, H5FD_MPIO_COLLECTIVE);
  hid_t file = writes ? H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, access)
                      : H5Fopen(path, H5F_ACC_RDONLY, access);
  check(file >= 0, "H5Fopen");
  hid_t space = H5Screate_simple(2, sizes, NULL), layout = H5Pcreate(H5P_DATASET_CREATE);
  H5Pset_chunk(layout, 2, chunk);
  H5Pset_fill_time(layout, H5D_FILL_TIME_NEVER);
  hid_t set =
      writes ? H5Dcreate2(file, "x", H5T_NATIVE_UINT64, space, H5P_DEFAULT, layout, H5P_DEFAULT)
             : H5Dopen2(file, "x", H5P_DEFAULT);
  hid_t memory = H5Screate_simple(2, count, NULL);
  H5Sselect_hyperslab(space, H5S_SELECT_SET, start, stride, count, NULL);
  herr_t done = writes ? H5Dwrite(set, H5T_NATIVE_UINT64, memory, space, transfer, data)
                       : H5Dread(set, H5T_NATIVE_UINT64, memory, space, transfer, data);
  check(done >= 0, "transfer");
  H5Dclose(set);
  check(H5Fclose(file) >= 0, "H5Fclose");
  double seconds = MPI_Wtime() - begin;
  return seconds;
}
#endif

#if defined(WITH_PNETCDF)
// Two variables of 64-bit numbers in records of 1,024; the ranks share each record.
static double by_pnetcdf(const char* operation, const char* path, char* data, uint64_t bytes) {
  MPI_Offset width = 1024, share = width / ranks, records = (MPI_Offset)(bytes / 2 / 8) / share;
  int file, sizes[2], sets[2], requests[2], statuses[2], writes = *operation == 'w';
  MPI_Barrier(MPI_COMM_WORLD);
  double begin = MPI_Wtime();
  check(
      (writes ? ncmpi_create(MPI_COMM_WORLD, path, NC_64BIT_DATA | NC_CLOBBER, MPI_INFO_NULL, &file)
              : ncmpi_open(MPI_COMM_WORLD, path, NC_NOWRITE, MPI_INFO_NULL, &file)) == NC_NOERR,
      "open");
  for (int i = 0; i < 2; ++i) {
    const char* name = i == 0 ? "x" : "y";
    if (writes && i == 0) {
      ncmpi_def_dim(file, "record", NC_UNLIMITED, &sizes[0]);
      ncmpi_def_dim(file, "width", width, &sizes[1]);
    }
    if (writes)
      ncmpi_def_var(file, name, NC_UINT64, 2, sizes, &sets[i]);
    else
      ncmpi_inq_varid(file, name, &sets[i]);
  }
  if (writes) check(ncmpi_enddef(file) == NC_NOERR, "enddef");
  MPI_Offset start[2] = {0, rank * share}, count[2] = {records, share};
  for (int i = 0; i < 2; ++i) {
    unsigned long long* part = (unsigned long long*)data + i * records * share;
    check((writes ? ncmpi_iput_vara_ulonglong(file, sets[i], start, count, part, &requests[i])
                  : ncmpi_iget_vara_ulonglong(file, sets[i], start, count, part, &requests[i])) ==
              NC_NOERR,
          "request");
  }
  check(ncmpi_wait_all(file, 2, requests, statuses) == NC_NOERR, "transfer");
  check(ncmpi_close(file) == NC_NOERR, "close");
  return MPI_Wtime() - begin;
}
#endif

int main(int words_count, char** words) {
  MPI_Init(&words_count, &words);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  check(words_count == 8, "WAY OPERATION PATTERN FILE BYTES PIECE FIRST");
  const char *way = words[1], *operation = words[2], *pattern = words[3], *path = words[4];
  uint64_t bytes = strtoull(words[5], NULL, 10), piece = strtoull(words[6], NULL, 10),
           pieces = bytes / piece;
  int is_array = strcmp(pattern, "chunks") != 0 && strcmp(pattern, "records") != 0;
  char* data = malloc(bytes);
  memset(data, 0, bytes);
  for (uint64_t at = 0; at < bytes && *operation == 'w'; at += 8) {
    uint64_t offset = is_array ? piece_at(pattern, at / piece, piece, pieces) + at % piece
                               : at * (uint64_t)ranks + (uint64_t)rank * 8;
    *(uint64_t*)(data + at) = word_at(offset);
  }
  // What a process does once, with its first file of a storage, is not counted.
  MPI_File first;
  mpi(MPI_File_open(MPI_COMM_WORLD, words[7], MPI_MODE_RDONLY, MPI_INFO_NULL, &first), "open");
  mpi(MPI_File_close(&first), "close");
  double seconds = 0;
  if (strcmp(way, "bare") == 0)
    seconds = bare(operation, path, data, bytes);
  else if (is_array)
    seconds = by_mpi(operation, pattern, path, data, bytes, piece);
#if defined(WITH_HDF5)
  else if (strcmp(pattern, "chunks") == 0)
    seconds = by_hdf5(operation, path, data, bytes);
#endif
#if defined(WITH_PNETCDF)
  else if (strcmp(pattern, "records") == 0)
    seconds = by_pnetcdf(operation, path, data, bytes);
#endif
  for (uint64_t at = 0; at < bytes && *operation == 'r' && strcmp(way, "bare") != 0; at += 8) {
    uint64_t offset = is_array ? piece_at(pattern, at / piece, piece, pieces) + at % piece
                               : at * (uint64_t)ranks + (uint64_t)rank * 8;
    check(*(uint64_t*)(data + at) == word_at(offset), "wrong data");
  }
  double slowest = 0;
  MPI_Reduce(&seconds, &slowest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("%.9f\n", slowest);
  MPI_Finalize();
  return 0;
}
