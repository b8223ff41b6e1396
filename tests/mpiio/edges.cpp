// A program of MPI-IO that knows nothing of Ferry: what lies at the edges of the standard. Each
// line names a case and what the ranks saw.
//
//   mpiexec -n 2 mpiio_edges FILE [threads]
//
//   threads  with MPI_THREAD_MULTIPLE
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include <mpi.h>

#include "mpiio/hint_values.hpp"
#include "mpiio/ranks.hpp"

namespace {

bool without_a_mount = false;  // the file is a URI

std::string bytes_of(int code, const MPI_Status& status) {
  int bytes = 0;
  MPI_Get_count(&status, MPI_BYTE, &bytes);
  return class_of(code) + " " + std::to_string(bytes);
}

std::string position_of(MPI_File file) {
  MPI_Offset position = -1;
  MPI_File_get_position(file, &position);
  return std::to_string(position);
}

MPI_File open(const char* path, int mode, const char* name) {
  MPI_File file = MPI_FILE_NULL;
  const int code = MPI_File_open(MPI_COMM_WORLD, path, mode, MPI_INFO_NULL, &file);
  print(name, class_of(code) + (file == MPI_FILE_NULL ? ", no handle" : ""));
  return file;
}

void close(MPI_File& file, const char* name) {
  const int code = MPI_File_close(&file);
  print(name, class_of(code) + (file == MPI_FILE_NULL ? "" : ", a handle is left"));
}

int handled = 0;
void handle(MPI_File* /*file*/, int* /*code*/, ...) {
  ++handled;
}

void at_the_end(MPI_File file) {
  MPI_Status status;
  std::vector<char> data(100, 'x');
  MPI_File_set_size(file, 50);
  MPI_File_set_view(file, 10, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL);
  int code = MPI_File_read_all(file, data.data(), 100, MPI_BYTE, &status);
  print("read_all over the end", bytes_of(code, status) + " to " + position_of(file));
  print("bytes behind it", data[60] == 'x' ? "as before" : "changed");
  code = MPI_File_read_at_all(file, 1000, data.data(), 10, MPI_BYTE, &status);
  print("read_at_all behind the end", bytes_of(code, status));
  MPI_File_seek(file, 0, MPI_SEEK_END);
  print("the end", position_of(file));
  MPI_Offset size = 0;
  MPI_File_get_size(file, &size);
  print("size", std::to_string(size));
  MPI_File_preallocate(file, 200);
  MPI_File_get_size(file, &size);
  print("preallocated", std::to_string(size));
  MPI_File_preallocate(file, 20);
  MPI_File_get_size(file, &size);
  print("preallocated less", std::to_string(size));
  MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL);
}

void of_single_ranks(MPI_File file) {
  MPI_Status statuses[3];
  MPI_Request requests[3];
  std::vector<int> out(10, 100 + rank);
  std::vector<int> in(10, 0);
  std::vector<int> other(10, 0);
  const MPI_Offset at = 1000 + 40 * rank;
  MPI_File_iwrite_at(file, at, out.data(), 10, MPI_INT, &requests[0]);
  MPI_Isend(out.data(), 10, MPI_INT, (rank + 1) % ranks, 7, MPI_COMM_WORLD, &requests[1]);
  MPI_Irecv(other.data(), 10, MPI_INT, (rank + ranks - 1) % ranks, 7, MPI_COMM_WORLD, &requests[2]);
  const int code = MPI_Waitall(3, requests, statuses);
  print("iwrite_at among messages", bytes_of(code, statuses[0]));
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_File_iread_at(file, at, in.data(), 10, MPI_INT, &request);
  int done = 0;
  while (done == 0)
    MPI_Test(&request, &done, &statuses[0]);
  print("iread_at", bytes_of(MPI_SUCCESS, statuses[0]) + (in == out ? "" : " wrong"));
  MPI_File_seek(file, at, MPI_SEEK_SET);
  std::vector<int> again(10, 0);
  const int read = MPI_File_read(file, again.data(), 10, MPI_INT, &statuses[0]);
  print("read", bytes_of(read, statuses[0]) + (again == out ? "" : " wrong") + " to +" +
                    std::to_string(std::stoll(position_of(file)) - at));
}

void wrong_arguments(MPI_File file) {
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  MPI_File_create_errhandler(handle, &handler);
  MPI_File_set_errhandler(file, handler);
  MPI_Status status;
  char data[16] = {};
  // Only Ferry tells the other ranks of these.
  int code = MPI_File_write_at_all(file, 0, data, rank == 0 ? -1 : 1, MPI_BYTE, &status);
  print("a negative count on one rank", class_of(code) + ", handled " + std::to_string(handled));
  code = MPI_File_read_at_all(file, rank == 0 ? -5 : 0, data, 1, MPI_BYTE, &status);
  print("a negative offset on one rank", class_of(code) + ", handled " + std::to_string(handled));
  code = MPI_File_read_at_all(file, 0, data, 1, MPI_BYTE, &status);
  print("the next call", class_of(code));
  // What the first rank asks for is left to the MPI library, if that has the file.
  MPI_Datatype back = MPI_DATATYPE_NULL;
  MPI_Type_create_resized(MPI_INT, 0, -4, &back);
  MPI_Type_commit(&back);
  code = MPI_File_read_at_all(file, 0, data + 12, rank == 0 ? 1 : -1, rank == 0 ? back : MPI_INT,
                              &status);
  print("a negative count beside what is left", class_of(code));
  MPI_Type_free(&back);
  if (without_a_mount) {
    // Waiting fails on all ranks, and none waits in its call.
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    MPI_Request requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
    for (int i = 0; i < 2; ++i)
      MPI_File_iread_at_all(file, 0, data + 2 * i, rank == i ? -1 : 1, MPI_BYTE, &requests[i]);
    MPI_Barrier(MPI_COMM_WORLD);
    const int second = MPI_Wait(&requests[1], &status);
    const int first = MPI_Wait(&requests[0], &status);
    print("nonblocking ones that one rank refuses",
          std::string(first != MPI_SUCCESS && second != MPI_SUCCESS ? "errors" : "done") +
              ", handled " + std::to_string(handled));
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_ARE_FATAL);
  }
  MPI_File_set_errhandler(file, MPI_ERRORS_RETURN);
  MPI_Errhandler_free(&handler);
}

// What a rank does for itself must not wait for the others, who are not at the end yet.
void between_the_halves(MPI_File file) {
  MPI_Status status;
  std::vector<int> out(20, 7 * rank);
  std::vector<int> in(20, 0);
  MPI_Offset size = 0;
  int word = 0;
  MPI_File_write_at_all_begin(file, 2000 + 80 * rank, out.data(), 20, MPI_INT);
  if (rank == 0) {
    MPI_File_read_at(file, 0, in.data(), 1, MPI_INT, &status);
    MPI_File_get_size(file, &size);
    for (int other = 1; other < ranks; ++other)
      MPI_Send(&word, 1, MPI_INT, other, 8, MPI_COMM_WORLD);
  } else {
    MPI_Recv(&word, 1, MPI_INT, 0, 8, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  }
  int code = MPI_File_write_at_all_end(file, out.data(), &status);
  print("a split write with others between", bytes_of(code, status));
  code = MPI_File_read_at_all(file, 2000 + 80 * rank, in.data(), 20, MPI_INT, &status);
  print("what it wrote", bytes_of(code, status) + (in == out ? "" : " wrong"));
}

// Two nonblocking collective transfers among messages; then one that is asked for.
void of_all_ranks(MPI_File file) {
  MPI_Status statuses[4];
  MPI_Request requests[4];
  std::vector<int> out(10, 500 + rank);
  std::vector<int> in(10, 0);
  std::vector<int> other(10, 0);
  const MPI_Offset at = 4000 + 40 * rank;
  const int next = (rank + 1) % ranks;
  int code = MPI_File_iwrite_at_all(file, at, out.data(), 10, MPI_INT, &requests[0]);
  if (code != MPI_SUCCESS) {  // as Ferry says where it needs threads for them
    print("iwrite_at_all", class_of(code));
    return;
  }
  MPI_Isend(out.data(), 10, MPI_INT, next, 9, MPI_COMM_WORLD, &requests[1]);
  MPI_File_iwrite_at_all(file, at + 1000, out.data(), rank, MPI_INT, &requests[2]);
  MPI_Irecv(other.data(), 10, MPI_INT, (rank + ranks - 1) % ranks, 9, MPI_COMM_WORLD, &requests[3]);
  for (int done = 0; done == 0 && code == MPI_SUCCESS;)
    code = MPI_Testall(4, requests, &done, statuses);
  print("iwrite_at_all among messages", bytes_of(code, statuses[0]));
  print("another beside it", bytes_of(code, statuses[2]));
  code = MPI_File_read_at(file, at + 1000, other.data(), rank, MPI_INT, &statuses[0]);
  print("what the other wrote",
        bytes_of(code, statuses[0]) +
            (std::equal(out.begin(), out.begin() + rank, other.begin()) ? "" : " wrong"));
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_File_iread_at_all(file, at, in.data(), 10, MPI_INT, &request);
  for (int done = 0; done == 0;)
    code = MPI_Test(&request, &done, &statuses[0]);
  print("iread_at_all", bytes_of(code, statuses[0]) + (in == out ? "" : " wrong"));
  MPI_File_seek(file, at, MPI_SEEK_SET);
  MPI_File_iread_all(file, in.data(), 10, MPI_INT, &request);
  print("the position meanwhile", std::to_string(std::stoll(position_of(file)) - at));
  int index = 0;
  code = MPI_Waitany(1, &request, &index, &statuses[0]);
  print("iread_all", bytes_of(code, statuses[0]) + (in == out ? "" : " wrong"));
}

// Transfers of two files, which each rank waits for in another order. It tests one of them before
// the ranks behind it have begun.
void of_two_files(const char* path) {
  constexpr int count = 50'000;
  MPI_File files[] = {open(path, MPI_MODE_RDWR, "a first handle"),
                      open(path, MPI_MODE_RDWR, "a second handle")};
  const auto place_of = [](int file, int of) {
    return MPI_Offset{20'000'000} + MPI_Offset{4} * count * (ranks * file + of);
  };
  std::vector<int> data[2];
  MPI_Request requests[] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL};
  MPI_Status statuses[2];
  int codes[2] = {};
  const auto see = [&](const char* name) {
    print(name, bytes_of(codes[0], statuses[0]) + " and " + bytes_of(codes[1], statuses[1]));
    bool right = true;
    for (int i = 0; i < 2; ++i) {
      const int other = (rank + 1) % ranks;
      std::vector<int> in(count, -1);
      MPI_File_read_at_all(files[i], place_of(i, other), in.data(), count, MPI_INT, &statuses[i]);
      const int step = other - rank;
      for (std::size_t at = 0; at < in.size(); ++at)
        right = right && in[at] == data[i][at] + step;
    }
    print("what is there of both", right ? "right" : "wrong");
  };
  int word = 0;
  if (rank > 0) MPI_Recv(&word, 1, MPI_INT, rank - 1, 12, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  for (int i = 0; i < 2; ++i) {
    data[i].assign(count, 1000 * i + rank);
    codes[i] = MPI_File_iwrite_at_all(files[i], place_of(i, rank), data[i].data(), count, MPI_INT,
                                      &requests[i]);
  }
  int done = 0;
  if (codes[1] == MPI_SUCCESS) MPI_Test(&requests[1], &done, &statuses[1]);
  const bool too_early = done != 0 && rank + 1 < ranks;
  if (rank + 1 < ranks) MPI_Send(&word, 1, MPI_INT, rank + 1, 12, MPI_COMM_WORLD);
  if (codes[0] == MPI_SUCCESS && codes[1] == MPI_SUCCESS) {  // or as in of_all_ranks()
    for (const int i : {rank % 2, 1 - rank % 2})
      if (requests[i] != MPI_REQUEST_NULL) codes[i] = MPI_Wait(&requests[i], &statuses[i]);
    see("nonblocking ones of two files");
    print("and done before the others begin", too_early ? "yes" : "no");
    // A collective call of the other file, on half of the ranks before they wait.
    data[0].assign(count, 3000 + rank);
    codes[0] = MPI_File_iwrite_at_all(files[0], place_of(0, rank), data[0].data(), count, MPI_INT,
                                      &requests[0]);
    const auto views = [&] {
      MPI_File_set_view(files[1], 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL);
      MPI_File_set_atomicity(files[1], 0);
    };
    if (rank % 2 == 0) views();
    codes[0] = MPI_Wait(&requests[0], &statuses[0]);
    if (rank % 2 != 0) views();
    see("beside a view of the other");
  }
  for (int i = 0; i < 2; ++i) {
    data[i].assign(count, 5000 * i + rank);
    MPI_File_write_at_all_begin(files[i], place_of(i, rank), data[i].data(), count, MPI_INT);
  }
  for (const int i : {rank % 2, 1 - rank % 2})
    codes[i] = MPI_File_write_at_all_end(files[i], data[i].data(), &statuses[i]);
  see("split ones of two files");
  close(files[1], "closing the second");
  close(files[0], "closing the first");
}

std::string shared_position_of(MPI_File file) {
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Offset position = -1;
  MPI_File_get_position_shared(file, &position);
  MPI_Barrier(MPI_COMM_WORLD);
  return std::to_string(position);
}

void at_the_shared_pointer(MPI_File file) {
  MPI_Status status;
  std::vector<int> out(10, 900 + rank);
  std::vector<int> in(10, 0);
  MPI_File_set_view(file, 8, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
  print("the shared pointer with a new view", shared_position_of(file));
  MPI_File_seek_shared(file, 2000, MPI_SEEK_SET);
  int code = MPI_File_write_ordered(file, out.data(), 10, MPI_INT, &status);
  print("write_ordered", bytes_of(code, status) + " to " + shared_position_of(file));
  MPI_File_seek_shared(file, -10 * ranks, MPI_SEEK_CUR);
  MPI_File_read_ordered_begin(file, in.data(), 10, MPI_INT);
  code = MPI_File_read_ordered_end(file, in.data(), &status);
  print("read_ordered", bytes_of(code, status) + (in == out ? "" : " wrong"));
  // Ranks in any order, but each once and in one piece.
  MPI_File_write_shared(file, out.data(), 10, MPI_INT, &status);
  print("write_shared", "to " + shared_position_of(file));
  std::vector<int> all(static_cast<std::size_t>(10 * ranks), 0);
  MPI_File_read_at_all(file, 2000 + 10 * ranks, all.data(), 10 * ranks, MPI_INT, &status);
  int found = 0;
  for (std::size_t i = 0; i < all.size(); i += 10)
    if (std::equal(out.begin(), out.end(), all.begin() + static_cast<std::ptrdiff_t>(i))) ++found;
  print("pieces of each rank", std::to_string(found));
  if (without_a_mount) {  // with MPICH 4.0, the other ranks would wait for ever
    code = MPI_File_seek_shared(file, -1'000'000, MPI_SEEK_CUR);
    print("seek_shared before the file", class_of(code));
  }
  MPI_File_seek_shared(file, 0, MPI_SEEK_END);
  MPI_Offset size = 0;
  MPI_File_get_size(file, &size);
  print("seek_shared to the end",
        shared_position_of(file) == std::to_string((size - 8 + 3) / 4) ? "right" : "wrong");
  MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL);
}

// As a sub-array behind a header has them where the MPI library follows MPI's rule for extents.
void of_copies_that_interleave(MPI_File file) {
  int lengths[] = {1, 1};
  MPI_Aint places[] = {0, 40};
  MPI_Datatype pieces = MPI_DATATYPE_NULL;
  MPI_Datatype view = MPI_DATATYPE_NULL;
  MPI_Type_create_hindexed(2, lengths, places, MPI_INT, &pieces);
  MPI_Type_create_resized(pieces, 0, 8, &view);
  MPI_Type_commit(&view);
  MPI_File_set_size(file, 8000);
  int code = MPI_File_set_view(file, 6000 + 200 * rank, MPI_INT, view, "native", MPI_INFO_NULL);
  print("a view whose copies interleave", class_of(code));
  MPI_Type_free(&view);
  MPI_Type_free(&pieces);
  MPI_Status status;
  const int out[] = {3 + rank, 5 + rank};
  int in[4] = {};
  code = MPI_File_write_at_all(file, 0, out, 2, MPI_INT, &status);
  print("writing a copy", bytes_of(code, status));
  code = MPI_File_read_at_all(file, 0, in, 2, MPI_INT, &status);
  print("reading it", bytes_of(code, status) + (std::equal(out, out + 2, in) ? "" : " wrong"));
  const int both[] = {out[0], out[1], 0, 0};
  code = MPI_File_read_at_all(file, 0, in, rank == 0 ? 4 : 2, MPI_INT, &status);
  print("reading more on one rank", code != MPI_SUCCESS ? class_of(code) : bytes_of(code, status));
  print("what that read", std::equal(in, in + 4, both) ? "right" : "wrong");
  in[0] = 0;
  code = MPI_File_read_all(file, in, 2, MPI_INT, &status);
  print("reading it at the position", code != MPI_SUCCESS ? class_of(code)
                                      : in[0] == out[0]   ? "right"
                                                          : "wrong");
  // The copies hold the ints at 0 and 40, 8 and 48, 16 and 56.
  const int more[] = {out[0], out[1], 7 + rank, 9 + rank, 11 + rank, 13 + rank};
  code = MPI_File_write_at_all(file, 0, more, 6, MPI_INT, &status);
  print("writing three copies", bytes_of(code, status));
  int back[6] = {};
  code = MPI_File_read_at_all(file, 0, back, 6, MPI_INT, &status);
  print("reading three copies", bytes_of(code, status));
  print("what is in them", std::equal(more, more + 6, back) ? "right" : "wrong");
  std::fill(back, back + 6, 0);
  code = MPI_File_read_at(file, 1, back, 5, MPI_INT, &status);
  print("reading them alone", std::equal(more + 1, more + 6, back) ? "right" : "wrong");
  MPI_File_set_view(file, 6000 + 200 * rank, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
  int plain[15] = {};
  code = MPI_File_read_at(file, 0, plain, 15, MPI_INT, &status);
  const int expected[15] = {more[0], 0, more[2], 0, more[4], 0, 0,      0,
                            0,       0, more[1], 0, more[3], 0, more[5]};
  print("and without the view", std::equal(plain, plain + 15, expected) ? "right" : "wrong");
  MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL);
}

// Of a file that is open for reading, with the number of each byte in it.
void of_views_that_overlap(MPI_File file) {
  int lengths[] = {2, 2, 1};
  MPI_Aint places[] = {0, 4, 16};
  MPI_Datatype pieces = MPI_DATATYPE_NULL;
  MPI_Datatype view = MPI_DATATYPE_NULL;
  MPI_Type_create_hindexed(3, lengths, places, MPI_INT, &pieces);
  MPI_Type_create_resized(pieces, 0, 20, &view);
  MPI_Type_commit(&view);
  int code = MPI_File_set_view(file, 4 * rank, MPI_INT, view, "native", MPI_INFO_NULL);
  print("a view that overlaps", class_of(code));
  MPI_Type_free(&view);
  MPI_Type_free(&pieces);
  MPI_Status status;
  int in[8] = {};
  code = MPI_File_read_all(file, in, 3, MPI_INT, &status);
  print("reading what overlaps", bytes_of(code, status) + " to " + position_of(file));
  code = MPI_File_read_all(file, in + 3, 5, MPI_INT, &status);
  print("and on from there", bytes_of(code, status) + " to " + position_of(file));
  const int of_file[] = {0, 1, 1, 2, 4, 5, 6, 6};
  bool right = true;
  for (int i = 0; i < 8; ++i)
    right = right && in[i] == of_file[i] + rank;
  print("with what overlaps twice", right ? "right" : "wrong");
  MPI_File_seek(file, 0, MPI_SEEK_END);
  print("its end", position_of(file));
  int places_down[] = {2, 0};
  MPI_Type_create_indexed_block(2, 1, places_down, MPI_INT, &view);
  MPI_Type_commit(&view);
  code = MPI_File_set_view(file, 0, MPI_INT, view, "native", MPI_INFO_NULL);
  print("a view that descends", code == MPI_SUCCESS ? "done" : "an error");
  MPI_Type_free(&view);
}

// Data lies before the view's lower bound. Positions are not asked for: MPICH 4.0 does not know
// them.
void of_a_lower_bound(MPI_File file) {
  MPI_Datatype view = MPI_DATATYPE_NULL;
  MPI_Type_create_resized(MPI_INT, 4, 12, &view);
  MPI_Type_commit(&view);
  MPI_File_set_view(file, 12000 + 4 * rank, MPI_INT, view, "native", MPI_INFO_NULL);
  MPI_Type_free(&view);
  MPI_Status status;
  const int out[] = {10 + rank, 20 + rank, 30 + rank};
  int in[3] = {};
  // MPICH 4.0 has no position there: all begins at the first.
  MPI_File_write_all_begin(file, out, 1, MPI_INT);
  int code = MPI_File_write_all_end(file, out, &status);
  print("beginning to write behind a lower bound", bytes_of(code, status));
  MPI_File_seek(file, 0, MPI_SEEK_SET);
  code = MPI_File_write_all(file, out, 1, MPI_INT, &status);
  print("all writing behind it", bytes_of(code, status));
  MPI_File_seek(file, 0, MPI_SEEK_SET);
  code = MPI_File_write(file, out, 2, MPI_INT, &status);
  print("writing behind a lower bound", bytes_of(code, status));
  code = MPI_File_write_at_all(file, 2, out + 2, 1, MPI_INT, &status);
  print("all writing there", bytes_of(code, status));
  code = MPI_File_read_at(file, 0, in, 3, MPI_INT, &status);
  print("reading it there",
        bytes_of(code, status) + (std::equal(out, out + 3, in) ? "" : " wrong"));
  MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL);
}

void of_memory_that_goes_backwards(MPI_File file) {
  MPI_Datatype back = MPI_DATATYPE_NULL;
  MPI_Type_create_resized(MPI_INT, 0, -4, &back);
  MPI_Type_commit(&back);
  const int out[] = {3 + rank, 2, 1};
  int in[3] = {};
  int code = MPI_File_write_at_all(file, 14000 + 12 * rank, out + 2, 3, back, MPI_STATUS_IGNORE);
  print("writing memory backwards", class_of(code));
  MPI_Type_free(&back);
  MPI_File_read_at_all(file, 14000 + 12 * rank, in, 3, MPI_INT, MPI_STATUS_IGNORE);
  print("what is there then", in[0] == 1 && in[2] == out[0] ? "right" : "other");
}

// Two doubles of each rank in turn, as they lie in memory and by all kinds of transfers.
void in_external32(MPI_File file) {
  MPI_Datatype view = MPI_DATATYPE_NULL;
  MPI_Type_vector(2, 1, ranks, MPI_DOUBLE, &view);
  MPI_Datatype spread = MPI_DATATYPE_NULL;
  MPI_Type_create_resized(view, 0, 16 * ranks, &spread);
  MPI_Type_commit(&spread);
  const MPI_Offset at = 16000;
  int code =
      MPI_File_set_view(file, at + 8 * rank, MPI_DOUBLE, spread, "external32", MPI_INFO_NULL);
  print("external32", class_of(code));
  MPI_Type_free(&view);
  MPI_Type_free(&spread);
  MPI_Status status;
  std::vector<double> out(8, 0);
  for (int i = 0; i < 8; ++i)
    out[static_cast<std::size_t>(i)] = 1.5 * i + 100 * rank;
  std::vector<double> in(8, 0);
  code = MPI_File_write_at_all(file, 0, out.data(), 2, MPI_DOUBLE, &status);
  print("writing so with all", bytes_of(code, status));
  MPI_File_seek(file, 2, MPI_SEEK_SET);
  code = MPI_File_write(file, out.data() + 2, 2, MPI_DOUBLE, &status);
  print("alone", bytes_of(code, status) + " to " + position_of(file));
  MPI_Request request = MPI_REQUEST_NULL;
  MPI_File_iwrite_at(file, 4, out.data() + 4, 2, MPI_DOUBLE, &request);
  code = MPI_Wait(&request, &status);
  print("without waiting", bytes_of(code, status));
  MPI_File_write_at_all_begin(file, 6, out.data() + 6, 2, MPI_DOUBLE);
  code = MPI_File_write_at_all_end(file, out.data() + 6, &status);
  print("in two halves", bytes_of(code, status));
  code = MPI_File_read_at_all(file, 0, in.data(), 8, MPI_DOUBLE, &status);
  const bool halves[] = {std::equal(in.begin(), in.begin() + 4, out.begin()),
                         std::equal(in.begin() + 4, in.end(), out.begin() + 4)};
  print("reading it so", bytes_of(code, status) + (halves[0] ? "" : " wrong"));
  print("its second half", halves[1] ? "right" : "wrong");
  MPI_Offset place = 0;
  MPI_File_get_byte_offset(file, 3, &place);
  print("where the fourth lies", std::to_string(place - at));
  char name[MPI_MAX_DATAREP_STRING] = {};
  MPI_Datatype types[2] = {MPI_DATATYPE_NULL, MPI_DATATYPE_NULL};
  MPI_Offset displacement = 0;
  MPI_File_get_view(file, &displacement, &types[0], &types[1], name);
  MPI_Type_free(&types[1]);
  print("the view's name", name);
  MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL);
  unsigned char bytes[8] = {};
  MPI_File_read_at_all(file, at + 8 * (ranks + 1), bytes, 8, MPI_BYTE, &status);  // 101.5
  const unsigned char swapped[8] = {0x40, 0x59, 0x60};
  print("the bytes in the file", std::equal(bytes, bytes + 8, swapped) ? "swapped" : "other");
}

// What MPICH 4.0 takes for one number, and data of other types than the view's.
void numbers_in_external32(MPI_File file) {
  MPI_Status status;
  const MPI_Offset at = 17000;
  const int number = 1;
  MPI_File_set_view(file, at, MPI_INT, MPI_INT, "external32", MPI_INFO_NULL);
  int code = MPI_File_write_at_all(file, 0, &number, rank == 0 ? 1 : 0,
                                   rank == 0 ? MPI_INT : MPI_BYTE, &status);
  print("nothing of another type", bytes_of(code, status));
  if (without_a_mount) {
    MPI_File_set_view(file, at, MPI_BYTE, MPI_BYTE, "external32", MPI_INFO_NULL);
    code = MPI_File_write_at_all(file, 0, &number, 1, MPI_INT, &status);
    print("numbers in a view of bytes", class_of(code));
    MPI_File_set_view(file, at, MPI_DOUBLE_COMPLEX, MPI_DOUBLE_COMPLEX, "external32",
                      MPI_INFO_NULL);
    const double both[2] = {1, 2};
    code = MPI_File_write_at(file, rank, both, 1, MPI_DOUBLE_COMPLEX, &status);
    MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL);
    unsigned char bytes[16] = {};
    MPI_File_read_at(file, at + 16 * rank, bytes, 16, MPI_BYTE, &status);
    const unsigned char expected[16] = {0x3f, 0xf0, 0, 0, 0, 0, 0, 0, 0x40};
    print("a complex number", std::equal(bytes, bytes + 16, expected) ? "two" : "other");
  }
  MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL);
}

// Two threads of each rank, through one position.
void at_one_position(MPI_File file) {
  constexpr int calls = 200;
  const MPI_Offset at = 20000 + 2000 * rank;
  std::vector<char> found(2 * calls);
  MPI_Status status;
  MPI_File_write_at(file, at, found.data(), 2 * calls, MPI_BYTE, &status);
  MPI_File_seek(file, at, MPI_SEEK_SET);
  const auto write = [file] {
    for (int i = 0; i < calls; ++i)
      MPI_File_write(file, "t", 1, MPI_BYTE, MPI_STATUS_IGNORE);
  };
  std::thread other(write);
  write();
  other.join();
  print("threads at one position end at", std::to_string(std::stol(position_of(file)) - at));
  MPI_File_read_at(file, at, found.data(), 2 * calls, MPI_BYTE, &status);
  print("and have written", std::to_string(std::count(found.begin(), found.end(), 't')));
  if (without_a_mount) {  // beside calls that fail
    MPI_Datatype back = MPI_DATATYPE_NULL;
    MPI_Type_create_resized(MPI_BYTE, 0, -1, &back);
    MPI_Type_commit(&back);
    MPI_File_seek(file, at, MPI_SEEK_SET);
    std::thread failing([file, back] {
      const char data[4] = {};
      for (int i = 0; i < calls; ++i)
        MPI_File_write(file, data + 3, 2, back, MPI_STATUS_IGNORE);
    });
    for (int i = 0; i < calls; ++i)
      MPI_File_write(file, "u", 1, MPI_BYTE, MPI_STATUS_IGNORE);
    failing.join();
    std::vector<char> all(4 * calls);
    MPI_File_read_at(file, at, all.data(), 4 * calls, MPI_BYTE, &status);
    const auto written = std::count(all.begin(), all.end(), 'u');
    print("beside calls that fail", written == calls ? "all" : std::to_string(written));
    MPI_Type_free(&back);
  }
  MPI_File_seek(file, 0, MPI_SEEK_SET);
}

void refused_views(MPI_File file) {
  MPI_Status status;
  const int number = 30 + rank;
  int found = 0;
  MPI_File_set_view(file, 18000 + 4 * rank, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
  const int code = MPI_File_set_view(file, -5, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL);
  print("a view before the file", code == MPI_SUCCESS ? "done" : "an error");
  MPI_File_write_at_all(file, 0, &number, 1, MPI_INT, &status);
  MPI_File_read_at(file, 0, &found, 1, MPI_INT, &status);
  print("in the view before", found == number ? "right" : "wrong");
  MPI_Offset displacement = 0;
  MPI_Datatype types[2] = {MPI_DATATYPE_NULL, MPI_DATATYPE_NULL};
  char name[MPI_MAX_DATAREP_STRING] = {};
  MPI_File_get_view(file, &displacement, &types[0], &types[1], name);
  print("that view", std::to_string(displacement - 4 * rank) + " " + name);
  MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL);
}

// As libraries above MPI close their files (HDF5).
int write_at_the_end(MPI_Comm, int, void* file, void*) {
  return MPI_File_write_at(*static_cast<MPI_File*>(file), 2 + rank, "s", 1, MPI_BYTE,
                           MPI_STATUS_IGNORE);
}

// A header that one rank reads, then a part of each rank.
void in_sequence(const char* path) {
  const int out = 700 + rank;
  int in = 0;
  MPI_Status status;
  MPI_File file = open(path, MPI_MODE_CREATE | MPI_MODE_WRONLY | MPI_MODE_SEQUENTIAL, "a sequence");
  int code = MPI_SUCCESS;
  if (rank == 0) code = MPI_File_write_shared(file, &out, 1, MPI_INT, &status);
  print("its header", class_of(code));
  code = MPI_File_write_ordered(file, &out, 1, MPI_INT, &status);
  print("write_ordered in it", bytes_of(code, status));
  code = MPI_File_write_at(file, 400 + 4 * rank, &out, 1, MPI_INT, &status);
  print("write_at in it", class_of(code));
  code = MPI_File_seek(file, 0, MPI_SEEK_SET);
  print("seek in it", class_of(code));
  close(file, "closing the sequence");
  file = open(path, MPI_MODE_RDONLY | MPI_MODE_SEQUENTIAL, "to read it");
  if (rank == 0) code = MPI_File_read_shared(file, &in, 1, MPI_INT, &status);
  print("the header", rank == 0 ? class_of(code) + " " + std::to_string(in) : "");
  MPI_Barrier(MPI_COMM_WORLD);
  code =
      MPI_File_set_view(file, MPI_DISPLACEMENT_CURRENT, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
  print("a view from there on", class_of(code));
  code = MPI_File_read_ordered(file, &in, 1, MPI_INT, &status);
  print("read_ordered behind it", bytes_of(code, status) + " " + std::to_string(in));
  close(file, "closing what was read");
}

// All ranks write the same bytes at the same time: one of them must win everywhere.
void in_atomic_mode(MPI_File file) {
  constexpr int bytes = 9'000'000;  // more than one request of a client library
  std::vector<char> out(bytes, static_cast<char>('a' + rank));
  std::vector<char> in(bytes, '-');
  int atomic = 0;
  MPI_File_set_atomicity(file, 1);
  MPI_File_get_atomicity(file, &atomic);
  print("atomic mode", std::to_string(atomic));
  int torn = 0;
  int failed = 0;
  for (int round = 0; round < 8; ++round) {
    MPI_Status status;
    std::fill(out.begin(), out.end(), static_cast<char>('a' + ranks * round + rank));
    if (round % 4 == 0) MPI_File_write_at_all(file, 0, out.data(), bytes, MPI_BYTE, &status);
    if (round % 4 == 1) MPI_File_write_at(file, 0, out.data(), bytes, MPI_BYTE, &status);
    if (round % 4 == 2) {
      MPI_File_write_at_all_begin(file, 0, out.data(), bytes, MPI_BYTE);
      MPI_File_write_at_all_end(file, out.data(), &status);
    }
    if (round % 4 == 3) {
      MPI_Request request = MPI_REQUEST_NULL;
      MPI_File_iwrite_at_all(file, 0, out.data(), bytes, MPI_BYTE, &request);
      MPI_Wait(&request, &status);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    std::fill(in.begin(), in.end(), '-');
    if (MPI_File_read_at_all(file, 0, in.data(), bytes, MPI_BYTE, &status) != MPI_SUCCESS) ++failed;
    if (in != std::vector<char>(bytes, in[0])) ++torn;
    const int writer = in[0] - ('a' + ranks * round);
    if (writer < 0 || writer >= ranks) ++failed;
    MPI_Barrier(MPI_COMM_WORLD);
  }
  print("writes of which something is torn", std::to_string(torn));
  print("and those that are not there", std::to_string(failed));
  MPI_File_set_atomicity(file, 0);
}

#if MPI_VERSION >= 4
// MPICH's own MPI-IO knows no such memory.
void large_types(MPI_File file) {
  MPI_Status status;
  std::vector<int> out(20, 0);
  std::vector<int> in(10, 0);
  for (int i = 0; i < 20; ++i)
    out[static_cast<std::size_t>(i)] = 100 * rank + i;
  MPI_Datatype every_other = MPI_DATATYPE_NULL;
  MPI_Type_vector_c(10, 1, 2, MPI_INT, &every_other);
  MPI_Type_commit(&every_other);
  int code = MPI_File_write_at_all_c(file, 3000 + 40 * rank, out.data(), 1, every_other, &status);
  print("a type with large counts", bytes_of(code, status));
  MPI_Type_free(&every_other);
  code = MPI_File_read_at_all(file, 3000 + 40 * rank, in.data(), 10, MPI_INT, &status);
  bool right = code == MPI_SUCCESS;
  for (int i = 0; i < 10; ++i)
    right = right && in[static_cast<std::size_t>(i)] == 100 * rank + 2 * i;
  print("what that wrote", right ? "right" : "wrong");
}
#endif

// Those go to the handler of MPI_FILE_NULL.
void errors_without_a_file(const char* path) {
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  MPI_File_create_errhandler(handle, &handler);
  MPI_File_set_errhandler(MPI_FILE_NULL, handler);
  handled = 0;
  open(path, MPI_MODE_RDWR, "opening it with a handler");
  MPI_File_delete(path, MPI_INFO_NULL);
  print("errors without a file", "handled " + std::to_string(handled));
  MPI_File_set_errhandler(MPI_FILE_NULL, MPI_ERRORS_RETURN);
  // The handler is not freed: MPICH 4.0 does not count that MPI_FILE_NULL has had it.
}

void hints(MPI_File file) {
  MPI_Info info = MPI_INFO_NULL;
  MPI_File_get_info(file, &info);
  print("the hint ferry_method", hint_of(info, "ferry_method") == "none" ? "not there" : "there");
  MPI_Info_free(&info);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const bool plain = std::getenv("LD_PRELOAD") == nullptr;
  const bool threads = argc > 2 && std::strcmp(argv[2], "threads") == 0;
  int provided = 0;
  MPI_Init_thread(&argc, &argv, threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const char* path = argv[1];
  without_a_mount = std::strchr(path, ':') != nullptr;
  MPI_File file = open(path, MPI_MODE_RDWR, "opening no file");
  file = open(path, MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_RDWR, "making it");
  MPI_File twice = open(path, MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_RDWR, "making it twice");
  at_the_end(file);
  of_single_ranks(file);
  between_the_halves(file);
  of_all_ranks(file);
  at_the_shared_pointer(file);
  of_copies_that_interleave(file);
  of_a_lower_bound(file);
  of_memory_that_goes_backwards(file);
  in_external32(file);
  numbers_in_external32(file);
  refused_views(file);
  of_two_files(path);
  if (threads) at_one_position(file);
  in_atomic_mode(file);
#if MPI_VERSION >= 4
  if (!plain) large_types(file);
#endif
  if (!plain) wrong_arguments(file);
  hints(file);
  close(file, "closing it");

  file = open(path, MPI_MODE_RDONLY, "for reading");
  char data[8] = {};
  int code = MPI_File_write_at_all(file, 0, data, 8, MPI_BYTE, MPI_STATUS_IGNORE);
  print("writing there", code == MPI_SUCCESS ? "done" : "an error");
  int mode = 0;
  MPI_File_get_amode(file, &mode);
  print("its mode", mode == MPI_MODE_RDONLY ? "right" : "wrong");
  close(file, "closing that");

  file = open(path, MPI_MODE_RDWR, "for numbers");
  std::vector<int> numbers(100);
  std::iota(numbers.begin(), numbers.end(), 0);
  MPI_File_set_size(file, 400);
  MPI_File_write_at_all(file, 0, numbers.data(), 100, MPI_INT, MPI_STATUS_IGNORE);
  close(file, "closing the numbers");
  file = open(path, MPI_MODE_RDONLY, "for reading them");
  of_views_that_overlap(file);
  close(file, "closing what overlaps");

  file = open(path, MPI_MODE_RDWR | MPI_MODE_APPEND, "for appending");
  MPI_Offset size = 0;
  MPI_File_get_size(file, &size);
  print("begins at", position_of(file) == std::to_string(size) ? "the end" : position_of(file));
  print("with the shared pointer at",
        shared_position_of(file) == std::to_string(size) ? "the end" : "another place");
  close(file, "closing this");
  in_sequence(path);

  file = open(path, MPI_MODE_RDWR | MPI_MODE_DELETE_ON_CLOSE, "to delete it");
  close(file, "closing and deleting");
  file = open(path, MPI_MODE_RDWR, "opening what is deleted");
  errors_without_a_file(path);
  file = open(path, MPI_MODE_CREATE | MPI_MODE_WRONLY, "making another");
  code = MPI_File_write_at_all(file, 0, data, 8, MPI_BYTE, MPI_STATUS_IGNORE);
  print("writing to it", class_of(code));
  close(file, "closing it again");
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) code = MPI_File_delete(path, MPI_INFO_NULL);
  print("deleting it", rank == 0 ? class_of(code) : "");
  if (rank == 0) code = MPI_File_delete(path, MPI_INFO_NULL);
  print("deleting it twice", rank == 0 ? class_of(code) : "");
  static_cast<void>(twice);
  file = open(path, MPI_MODE_CREATE, "making one for nothing");
  file = open(path, MPI_MODE_RDONLY, "opening that");
  int at_the_end_key = MPI_KEYVAL_INVALID;
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, write_at_the_end, &at_the_end_key, nullptr);
  MPI_Comm_set_attr(MPI_COMM_SELF, at_the_end_key, &file);
  file = open(path, MPI_MODE_CREATE | MPI_MODE_WRONLY, "making one that stays open");
  data[0] = 'o';
  code = MPI_File_write_at_all(file, rank, data, 1, MPI_BYTE, MPI_STATUS_IGNORE);
  print("writing to that", class_of(code));
  MPI_Finalize();
  return 0;
}
