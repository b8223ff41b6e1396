// A program of MPI-IO that knows nothing of Ferry: on its last rank each allocation of a call fails
// in turn. Each line names a call and in how many ways it failed, or what was wrong then.
//
//   mpiexec -n 2 mpiio_lacks_memory URI [NUMBER | exchange]
//
//   NUMBER    only the opening, and of its allocations only this one fails
//   exchange  only a write in which the ranks exchange data
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include <mpi.h>
#include <unistd.h>

#include "faults/allocations.hpp"
#include "mpiio/ranks.hpp"

namespace {

using ferry::test::allocations;

constexpr int block_bytes = 4096;
constexpr unsigned patience_s = 60;

int class_of(int code) {
  int error_class = MPI_SUCCESS;
  MPI_Error_class(code, &error_class);
  return error_class;
}

// Collective. The class of a call's error on all ranks; -1: ranks differ.
int agreed(int code) {
  const int own = class_of(code);
  std::array<int, 2> extremes{own, -own};
  MPI_Allreduce(MPI_IN_PLACE, extremes.data(), 2, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  return extremes[0] == -extremes[1] ? own : -1;
}

// Collective.
template <class Call>
int call_without(std::uint64_t number, const Call& call) {
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == ranks - 1) allocations().arm(number);
  const int code = call();
  allocations().disarm();
  return code;
}

// Collective.
template <class Call>
void fail_each(const char* name, const Call& call) {
  for (std::uint64_t n = 1;; ++n) {
    alarm(patience_s);
    const int seen = agreed(call_without(n, call));
    int has_struck = allocations().struck() ? 1 : 0;
    MPI_Bcast(&has_struck, 1, MPI_INT, ranks - 1, MPI_COMM_WORLD);
    const std::string where = " where allocation " + std::to_string(n) + " failed";
    if (seen == -1) return print(name, "differ" + where);
    if (seen != MPI_SUCCESS && has_struck == 0) return print(name, "fails");
    if (agreed(call()) != MPI_SUCCESS) return print(name, "fails later" + where);
    if (has_struck == 0) return print(name, "fails or works on all ranks");
  }
}

}  // namespace

int main(int argc, char** argv) {
  alarm(patience_s);
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_File file = MPI_FILE_NULL;
  const bool exchanges = argc > 2 && std::strcmp(argv[2], "exchange") == 0;
  MPI_Info info = MPI_INFO_NULL;
  MPI_Info_create(&info);
  MPI_Info_set(info, "romio_cb_write", exchanges ? "enable" : "disable");
  MPI_Info_set(info, "romio_cb_read", "disable");
  const auto open = [&] {
    return MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_RDWR | MPI_MODE_CREATE, info, &file);
  };
  if (argc > 2 && !exchanges) {
    print("open", std::to_string(agreed(call_without(std::strtoull(argv[2], nullptr, 10), open))));
    if (file != MPI_FILE_NULL) MPI_File_close(&file);
    MPI_Finalize();
    return 0;
  }
  if (open() != MPI_SUCCESS) MPI_Abort(MPI_COMM_WORLD, 1);
  std::string data(block_bytes, static_cast<char>('a' + rank));
  const MPI_Offset at = MPI_Offset{rank} * block_bytes;
  const auto write = [&] {
    return MPI_File_write_at_all(file, at, data.data(), block_bytes, MPI_BYTE, MPI_STATUS_IGNORE);
  };
  if (exchanges) fail_each("write_at_all", write);
  for (int atomic = 0; atomic < 2 && !exchanges; ++atomic) {
    MPI_File_set_atomicity(file, atomic);
    const std::string in = atomic != 0 ? " in atomic mode" : "";
    fail_each(("write_at_all" + in).c_str(), write);
    fail_each(("read_at_all" + in).c_str(), [&] {
      return MPI_File_read_at_all(file, at, data.data(), block_bytes, MPI_BYTE, MPI_STATUS_IGNORE);
    });
    fail_each(("write_ordered" + in).c_str(), [&] {
      return MPI_File_write_ordered(file, data.data(), block_bytes, MPI_BYTE, MPI_STATUS_IGNORE);
    });
    fail_each(("a split write" + in).c_str(), [&] {
      const int begun = MPI_File_write_at_all_begin(file, at, data.data(), block_bytes, MPI_BYTE);
      const int ended = MPI_File_write_at_all_end(file, data.data(), MPI_STATUS_IGNORE);
      return begun != MPI_SUCCESS ? begun : ended;
    });
  }
  MPI_File_close(&file);
  MPI_Finalize();
  return 0;
}
