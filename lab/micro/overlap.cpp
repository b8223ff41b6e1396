// Steps that compute and transfer, by MPI-IO: one after the other, and at the same time. A program
// that knows nothing of Ferry; overlap.py runs it.
//
//   mpiexec -n 2 ferry-overlap FILE MIB MS REPEATS THREAD
//
// Each rank moves MIB mebibytes in pieces of 64 KiB that take turns with the others', and computes
// for MS milliseconds of an idle CPU. THREAD: multiple or single. "alone": by calls that are not
// collective, each rank's data in one piece. Prints a line of JSON for each way: seconds of each
// step on the slowest rank.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <mpi.h>

namespace {

using Clock = std::chrono::steady_clock;
constexpr int piece_bytes = 64 << 10;
constexpr int slices = 50;  // of a computation, with a look at the request between them

double seconds_of(const std::function<void()>& work) {
  const auto begin = Clock::now();
  work();
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// What the compiler cannot leave out.
std::uint64_t mix(std::uint64_t rounds) {
  volatile std::uint64_t kept = rounds;
  std::uint64_t value = kept;
  for (std::uint64_t i = 0; i < rounds; ++i)
    value = value * 6364136223846793005U + 1442695040888963407U;
  kept = value;
  return kept;
}

// The same work in each step, whoever takes the CPU meanwhile.
std::uint64_t rounds_for(double seconds) {
  constexpr std::uint64_t tried = 2'000'000;
  double shortest = 1;
  for (int i = 0; i < 20; ++i)
    shortest = std::min(shortest, seconds_of([] { mix(tried); }));
  return static_cast<std::uint64_t>(seconds / shortest * static_cast<double>(tried));
}

void check(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  std::fprintf(stderr, "%s fails\n", what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) return 2;
  const bool threads = std::strcmp(argv[5], "multiple") == 0;
  int provided = 0;
  MPI_Init_thread(&argc, &argv, threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int bytes = std::atoi(argv[2]) << 20;
  const int repeats = std::atoi(argv[4]);
  std::uint64_t rounds = rounds_for(std::atof(argv[3]) / 1000);
  MPI_Bcast(&rounds, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
  std::vector<char> data(static_cast<std::size_t>(bytes), static_cast<char>('a' + rank));

  MPI_File file = MPI_FILE_NULL;
  check(
      MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file),
      "opening");
  MPI_Datatype row = MPI_DATATYPE_NULL;
  MPI_Datatype view = MPI_DATATYPE_NULL;
  MPI_Type_contiguous(piece_bytes, MPI_BYTE, &row);
  MPI_Type_create_resized(row, 0, MPI_Aint{piece_bytes} * ranks, &view);
  MPI_Type_commit(&view);
  check(MPI_File_set_view(file, MPI_Offset{piece_bytes} * rank, MPI_BYTE, view, "native",
                          MPI_INFO_NULL),
        "set_view");
  MPI_File alone = MPI_FILE_NULL;
  check(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_RDWR, MPI_INFO_NULL, &alone), "opening");
  check(MPI_File_set_view(alone, MPI_Offset{bytes} * rank, MPI_BYTE, MPI_BYTE, "native",
                          MPI_INFO_NULL),
        "set_view");

  const auto compute = [&] { mix(rounds); };
  const auto begin = [&](bool writes, MPI_Request* request) {
    check(writes ? MPI_File_iwrite_at_all(file, 0, data.data(), bytes, MPI_BYTE, request)
                 : MPI_File_iread_at_all(file, 0, data.data(), bytes, MPI_BYTE, request),
          "beginning");
  };
  const auto move = [&](bool writes) {
    check(writes ? MPI_File_write_at_all(file, 0, data.data(), bytes, MPI_BYTE, MPI_STATUS_IGNORE)
                 : MPI_File_read_at_all(file, 0, data.data(), bytes, MPI_BYTE, MPI_STATUS_IGNORE),
          "moving");
  };
  const auto begin_alone = [&](bool writes, MPI_Request* request) {
    check(writes ? MPI_File_iwrite_at(alone, 0, data.data(), bytes, MPI_BYTE, request)
                 : MPI_File_iread_at(alone, 0, data.data(), bytes, MPI_BYTE, request),
          "beginning");
  };
  const auto move_alone = [&](bool writes) {
    check(writes ? MPI_File_write_at(alone, 0, data.data(), bytes, MPI_BYTE, MPI_STATUS_IGNORE)
                 : MPI_File_read_at(alone, 0, data.data(), bytes, MPI_BYTE, MPI_STATUS_IGNORE),
          "moving");
  };
  using Way = std::function<void(bool writes)>;
  const std::vector<std::pair<std::string, Way>> ways = {
      {"compute", [&](bool) { compute(); }},
      {"transfer", move},
      {"one after the other",
       [&](bool writes) {
         compute();
         move(writes);
       }},
      {"nonblocking",
       [&](bool writes) {
         MPI_Request request = MPI_REQUEST_NULL;
         begin(writes, &request);
         compute();
         check(MPI_Wait(&request, MPI_STATUS_IGNORE), "waiting");
       }},
      {"nonblocking, tested",
       [&](bool writes) {
         MPI_Request request = MPI_REQUEST_NULL;
         begin(writes, &request);
         for (int slice = 0; slice < slices; ++slice) {
           mix(rounds / slices);
           int done = 0;
           if (request != MPI_REQUEST_NULL)
             check(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "testing");
         }
         if (request != MPI_REQUEST_NULL) check(MPI_Wait(&request, MPI_STATUS_IGNORE), "waiting");
       }},
      {"split",
       [&](bool writes) {
         check(writes ? MPI_File_write_at_all_begin(file, 0, data.data(), bytes, MPI_BYTE)
                      : MPI_File_read_at_all_begin(file, 0, data.data(), bytes, MPI_BYTE),
               "beginning");
         compute();
         check(writes ? MPI_File_write_at_all_end(file, data.data(), MPI_STATUS_IGNORE)
                      : MPI_File_read_at_all_end(file, data.data(), MPI_STATUS_IGNORE),
               "ending");
       }},
      {"alone, transfer", move_alone},
      {"alone, one after the other",
       [&](bool writes) {
         compute();
         move_alone(writes);
       }},
      {"alone, nonblocking",
       [&](bool writes) {
         MPI_Request request = MPI_REQUEST_NULL;
         begin_alone(writes, &request);
         compute();
         check(MPI_Wait(&request, MPI_STATUS_IGNORE), "waiting");
       }},
  };
  std::map<std::string, std::vector<double>> seconds;
  for (const bool writes : {true, false}) {
    move_alone(writes);
    move(writes);  // the first one makes plans and connections
    for (int repeat = 0; repeat < repeats; ++repeat) {
      for (std::size_t i = 0; i < ways.size(); ++i) {
        const auto& way = ways[repeat % 2 == 0 ? i : ways.size() - 1 - i];
        MPI_Barrier(MPI_COMM_WORLD);
        double own = seconds_of([&] { way.second(writes); });
        MPI_Allreduce(MPI_IN_PLACE, &own, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        seconds[(writes ? "write, " : "read, ") + way.first].push_back(own);
      }
    }
  }
  check(MPI_File_close(&alone), "closing");
  check(MPI_File_close(&file), "closing");
  MPI_Type_free(&view);
  MPI_Type_free(&row);
  for (const auto& [name, samples] : seconds) {
    if (rank != 0) break;
    std::printf("{\"way\": \"%s\", \"seconds\": [", name.c_str());
    for (std::size_t i = 0; i < samples.size(); ++i)
      std::printf("%s%.6f", i == 0 ? "" : ", ", samples[i]);
    std::printf("]}\n");
  }
  MPI_Finalize();
  return 0;
}
