// A program of MPI-IO that knows nothing of Ferry: its file's server fails in the middle of
// collective transfers, and works again. Each line names a call and what the ranks saw: the class
// of its error, and whether all had the same text; and while the server fails, how long it took.
//
//   mpiexec -n 3 mpiio_failing_server FILE FOLDER
//
// Makes FOLDER/begun when transfers have begun: the server shall fail from then on. Makes
// FOLDER/failed when it has seen enough of that, and waits for FOLDER/works.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <mpi.h>

#include "mpiio/ranks.hpp"

namespace {

constexpr int block_bytes = 16384;
constexpr int blocks = 8;
constexpr int steps_max = 100'000;
constexpr std::chrono::seconds patience{100};

std::string class_of(int code) {
  int error_class = MPI_SUCCESS;
  MPI_Error_class(code, &error_class);
  if (error_class == MPI_SUCCESS) return "done";
  if (error_class == MPI_ERR_IO) return "I/O";
  return "class " + std::to_string(error_class);
}

// Collective.
void show(const char* name, int code, const char* seen = "") {
  char text[MPI_MAX_ERROR_STRING] = {};
  int bytes = 0;
  if (code != MPI_SUCCESS) MPI_Error_string(code, text, &bytes);
  char first[MPI_MAX_ERROR_STRING] = {};
  std::memcpy(first, text, sizeof first);
  MPI_Bcast(first, sizeof first, MPI_CHAR, 0, MPI_COMM_WORLD);
  const std::string own =
      class_of(code) + (std::strcmp(first, text) == 0 ? "" : " by another text") + seen;
  print(name, own);
  if (rank == 0 && bytes != 0) std::printf("text of %s: %s\n", name, text);
}

// Collective. Makes a call and shows what came of it and how long the slowest rank waited for it.
template <class Call>
void show_timed(const char* name, Call call) {
  const double begin = MPI_Wtime();
  const int code = call();
  const double own = MPI_Wtime() - begin;
  double longest = 0;
  MPI_Reduce(&own, &longest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
  show(name, code);
  if (rank == 0) std::printf("seconds of %s: %.1f\n", name, longest);
}

std::filesystem::path folder;

void tell(const char* name) {
  if (rank == 0) std::fclose(std::fopen((folder / name).c_str(), "w"));
}

void await(const char* name) {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (rank == 0 && !std::filesystem::exists(folder / name)) {
    if (std::chrono::steady_clock::now() > end) MPI_Abort(MPI_COMM_WORLD, 3);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

std::vector<char> data_of(int step) {
  return std::vector<char>(std::size_t{block_bytes} * blocks,
                           static_cast<char>(rank + 3 * step + 1));
}

int write_step(MPI_File file, int step) {
  const std::vector<char> data = data_of(step);
  const int bytes = static_cast<int>(data.size());
  return MPI_File_write_at_all(file, MPI_Offset{step} * bytes, data.data(), bytes, MPI_BYTE,
                               MPI_STATUS_IGNORE);
}

// The file refuses writes until the server has answered those that failed.
void await_late_writes(MPI_File file) {
  const auto end = std::chrono::steady_clock::now() + patience;
  while (write_step(file, 0) != MPI_SUCCESS) {
    if (std::chrono::steady_clock::now() > end) MPI_Abort(MPI_COMM_WORLD, 5);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

// While the server fails. Nothing of a call that is an error may come later.
void call_in_vain(MPI_File file, const char* path) {
  std::vector<char> data(std::size_t{block_bytes} * blocks, 'x');
  const int bytes = static_cast<int>(data.size());
  show_timed("read_at_all", [&] {
    return MPI_File_read_at_all(file, 0, data.data(), bytes, MPI_BYTE, MPI_STATUS_IGNORE);
  });
  show_timed("iwrite_at_all", [&] {
    MPI_Request request = MPI_REQUEST_NULL;
    int code = MPI_File_iwrite_at_all(file, 0, data.data(), bytes, MPI_BYTE, &request);
    if (code == MPI_SUCCESS) code = MPI_Wait(&request, MPI_STATUS_IGNORE);
    return code == MPI_SUCCESS ? code : MPI_ERR_IO;  // its class is the library's
  });
  show_timed("write_at_all_begin", [&] {
    const int code = MPI_File_write_at_all_begin(file, 0, data.data(), bytes, MPI_BYTE);
    return code != MPI_SUCCESS ? code
                               : MPI_File_write_at_all_end(file, data.data(), MPI_STATUS_IGNORE);
  });
  show_timed("write_ordered", [&] {
    return MPI_File_write_ordered(file, data.data(), bytes, MPI_BYTE, MPI_STATUS_IGNORE);
  });
  show_timed("sync", [&] { return MPI_File_sync(file); });
  MPI_Offset size = 0;
  show_timed("get_size", [&] { return MPI_File_get_size(file, &size); });
  MPI_File other = MPI_FILE_NULL;
  show_timed("open", [&] {
    return MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDONLY, MPI_INFO_NULL, &other);
  });
  if (other != MPI_FILE_NULL) show_timed("closing that", [&] { return MPI_File_close(&other); });
}

MPI_File open(const char* path, MPI_Datatype view) {
  MPI_File file = MPI_FILE_NULL;
  const int code =
      MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
  if (code != MPI_SUCCESS) MPI_Abort(MPI_COMM_WORLD, 4);
  MPI_File_set_view(file, MPI_Offset{rank} * block_bytes, MPI_BYTE, view, "native", MPI_INFO_NULL);
  return file;
}

void read_back(const char* path, MPI_Datatype view, int steps) {
  MPI_File file = open(path, view);
  int wrong = 0;
  for (int step = 0; step < steps; ++step) {
    const std::vector<char> expected = data_of(step);
    std::vector<char> found(expected.size());
    const int bytes = static_cast<int>(found.size());
    const int code = MPI_File_read_at_all(file, MPI_Offset{step} * bytes, found.data(), bytes,
                                          MPI_BYTE, MPI_STATUS_IGNORE);
    wrong += code != MPI_SUCCESS || found != expected ? 1 : 0;
  }
  show("what is there", MPI_SUCCESS, wrong == 0 ? " right" : " wrong");
  MPI_File_close(&file);
}

}  // namespace

int main(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  // Errors of MPI_Wait go there.
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
  if (argc != 3) MPI_Abort(MPI_COMM_WORLD, 2);
  const char* path = argv[1];
  folder = argv[2];
  MPI_Datatype view = MPI_DATATYPE_NULL;
  MPI_Datatype pieces = MPI_DATATYPE_NULL;
  MPI_Type_vector(blocks, block_bytes, block_bytes * ranks, MPI_BYTE, &pieces);
  MPI_Type_create_resized(pieces, 0, MPI_Aint{block_bytes} * blocks * ranks, &view);
  MPI_Type_commit(&view);

  MPI_File file = open(path, view);
  show("write_at_all", write_step(file, 0));
  show("sync before", MPI_File_sync(file));
  tell("begun");
  show_timed("a later write_at_all", [&] {
    int code = MPI_SUCCESS;
    for (int i = 0; code == MPI_SUCCESS && i < steps_max; ++i)
      code = write_step(file, i % 4);
    return code;
  });
  call_in_vain(file, path);
  tell("failed");
  await("works");
  await_late_writes(file);
  for (int step = 0; step < 4; ++step)
    show("write_at_all again", write_step(file, step));
  show("sync again", MPI_File_sync(file));
  show("close", MPI_File_close(&file));
  read_back(path, view, 4);
  MPI_Type_free(&pieces);
  MPI_Type_free(&view);
  MPI_Finalize();
}
