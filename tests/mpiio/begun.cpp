// A program of MPI-IO that knows nothing of Ferry: nonblocking transfers of one rank. Each is under
// way as soon as it is started: the program sees its data while it calls no function of MPI. Each
// line names a case and what the ranks saw.
//
//   mpiexec -n 2 mpiio_begun FILE PATH [threads]
//
//   PATH     where other programs see the file
//   threads  with MPI_THREAD_MULTIPLE
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <mpi.h>
#include <sys/file.h>
#include <unistd.h>

#include "mpiio/ranks.hpp"

namespace {

constexpr int count = 300'000;
constexpr int bytes = 4 * count;
constexpr auto seen_within = std::chrono::seconds(30);

// Calls no function of MPI.
bool becomes_true(const std::function<bool()>& look) {
  const auto end = std::chrono::steady_clock::now() + seen_within;
  while (!look()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

// While a rank looks, no other does, and it reads a few bytes from the middle: of two readers of
// one file behind one ceph-fuse, or of one and its read-ahead, Ceph 16.2 forgets to wake one where
// a third client writes.
class Look {
 public:
  explicit Look(const char* path)
      : turn_(open("/proc/self/exe", O_RDONLY | O_CLOEXEC)), file_(open_in_turn(path)) {}
  Look(const Look&) = delete;
  Look& operator=(const Look&) = delete;
  ~Look() {
    if (file_ >= 0) close(file_);
    close(turn_);
  }

  [[nodiscard]] bool sees(const std::vector<int>& data, MPI_Offset at) const {
    std::vector<int> found(data.size(), -1);
    const auto wanted = static_cast<ssize_t>(sizeof(int) * data.size());
    return pread(file_, found.data(), sizeof(int) * data.size(), at) == wanted && found == data;
  }

 private:
  int open_in_turn(const char* path) const {
    flock(turn_, LOCK_EX);
    return open(path, O_RDONLY | O_CLOEXEC);
  }

  int turn_;
  int file_;
};

// A transfer whose middle and end are there; all bytes are compared when the file is closed.
bool is_in_file(const char* path, MPI_Offset at, const std::vector<int>& data) {
  const Look look(path);
  return look.sees({data[count / 2]}, at + bytes / 2) && look.sees({data.back()}, at + bytes - 4);
}

bool has_arrived(const std::vector<int>& data, int value) {
  const auto of = [](const int& one) { return *const_cast<const volatile int*>(&one); };
  return of(data.front()) == value && of(data.back()) == value;
}

// The functions by which a program may wait for one request.
struct Ending {
  const char* name;
  std::function<void(MPI_Request*, MPI_Status*)> end;
};

void until(const std::function<int()>& done) {
  while (done() == 0)
    continue;
}

const std::vector<Ending>& endings() {
  static const std::vector<Ending> all = {
      {"MPI_Wait", [](MPI_Request* request, MPI_Status* status) { MPI_Wait(request, status); }},
      {"MPI_Waitall",
       [](MPI_Request* request, MPI_Status* status) {
         MPI_Request both[] = {MPI_REQUEST_NULL, *request};
         MPI_Status statuses[2];
         int sent = rank;
         int got = -1;
         MPI_Request message = MPI_REQUEST_NULL;
         MPI_Irecv(&got, 1, MPI_INT, rank, 3, MPI_COMM_WORLD, &both[0]);
         MPI_Isend(&sent, 1, MPI_INT, rank, 3, MPI_COMM_WORLD, &message);
         MPI_Waitall(2, both, statuses);
         MPI_Wait(&message, MPI_STATUS_IGNORE);
         *request = both[1];
         *status = statuses[1];
       }},
      {"MPI_Waitany",
       [](MPI_Request* request, MPI_Status* status) {
         int index = -1;
         MPI_Waitany(1, request, &index, status);
       }},
      {"MPI_Waitsome",
       [](MPI_Request* request, MPI_Status* status) {
         int done = 0;
         int index = -1;
         MPI_Waitsome(1, request, &done, &index, status);
       }},
      {"MPI_Test",
       [](MPI_Request* request, MPI_Status* status) {
         until([&, done = 0]() mutable { return MPI_Test(request, &done, status), done; });
       }},
      {"MPI_Testall",
       [](MPI_Request* request, MPI_Status* status) {
         until([&, done = 0]() mutable { return MPI_Testall(1, request, &done, status), done; });
       }},
      {"MPI_Testany",
       [](MPI_Request* request, MPI_Status* status) {
         int index = -1;
         until([&, done = 0]() mutable {
           return MPI_Testany(1, request, &index, &done, status), done;
         });
       }},
      {"MPI_Testsome",
       [](MPI_Request* request, MPI_Status* status) {
         int index = -1;
         until([&, done = 0]() mutable {
           return MPI_Testsome(1, request, &done, &index, status), done;
         });
       }},
      {"MPI_Request_get_status",
       [](MPI_Request* request, MPI_Status* status) {
         until([&, done = 0]() mutable {
           return MPI_Request_get_status(*request, &done, status), done;
         });
         MPI_Wait(request, status);
       }},
  };
  return all;
}

std::string ends(const Ending& ending, MPI_Request request) {
  MPI_Status status;
  ending.end(&request, &status);
  int moved = -1;
  MPI_Get_elements(&status, MPI_BYTE, &moved);
  return (moved == bytes ? "all" : std::to_string(moved)) +
         std::string(request == MPI_REQUEST_NULL ? "" : ", not freed");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const bool threads = argc > 3 && std::strcmp(argv[3], "threads") == 0;
  int provided = 0;
  MPI_Init_thread(&argc, &argv, threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_File file = MPI_FILE_NULL;
  MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
  MPI_Offset at = MPI_Offset{bytes} * rank;
  int value = 1 + rank;
  const auto next = [&] {
    at += MPI_Offset{bytes} * ranks;
    value += ranks;
  };
  MPI_Request request = MPI_REQUEST_NULL;
  std::vector<std::pair<MPI_Offset, int>> kept;
  for (const Ending& ending : endings()) {
    const std::vector<int> out(count, value);
    kept.emplace_back(at, value);
    MPI_File_iwrite_at(file, at, out.data(), count, MPI_INT, &request);
    const bool writes = becomes_true([&] { return is_in_file(argv[2], at, out); });
    const std::string written = ends(ending, request);
    std::vector<int> in(count, -1);
    MPI_File_iread_at(file, at, in.data(), count, MPI_INT, &request);
    const bool reads = becomes_true([&] { return has_arrived(in, value); });
    const std::string read = ends(ending, request);
    print(ending.name, std::string(writes ? "written " : "not begun ") + written + ", " +
                           (reads ? "read " : "not begun ") + read + (in == out ? "" : " wrong"));
    next();
  }
  // They have not ended when they return, where the server hangs until they have.
  if (const char* const hangs = std::getenv("FERRY_MOCK_PVFS2_HANGS_WHILE"); hangs != nullptr) {
    if (rank == 0) close(open(hangs, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    MPI_Barrier(MPI_COMM_WORLD);
    const std::vector<int> out(count, value);
    std::vector<int> in(count, -1);
    MPI_Request both[2];
    MPI_File_iwrite_at(file, at, out.data(), count, MPI_INT, &both[0]);
    MPI_File_iread_at(file, at, in.data(), count, MPI_INT, &both[1]);
    const bool early = is_in_file(argv[2], at, out) || in.front() != -1;
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) unlink(hangs);
    MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
    print("of a server that hangs", early ? "too early" : in == out ? "right" : "wrong");
    next();
  }
  // The datatype of memory is the program's to free, and so is the request; the memory is not.
  MPI_Datatype gaps = MPI_DATATYPE_NULL;
  MPI_Type_vector(count, 1, 2, MPI_INT, &gaps);
  MPI_Type_commit(&gaps);
  const std::vector<int> spread(2 * count, value);
  MPI_File_iwrite_at(file, at, spread.data(), 1, gaps, &request);
  MPI_Type_free(&gaps);
  MPI_Request_free(&request);
  const std::vector<int> out(count, value);
  kept.emplace_back(at, value);
  print("freed", becomes_true([&] { return is_in_file(argv[2], at, out); }) ? "written" : "not");
  next();
  // Several at a time, at the file pointer, in each other's turn.
  MPI_File_seek(file, at, MPI_SEEK_SET);
  std::vector<int> parts(4);
  MPI_Request requests[4];
  for (int i = 0; i < 4; ++i) {
    parts[static_cast<std::size_t>(i)] = value + i;
    MPI_File_iwrite(file, &parts[static_cast<std::size_t>(i)], 1, MPI_INT, &requests[i]);
  }
  std::reverse(requests, requests + 4);
  MPI_Waitall(4, requests, MPI_STATUSES_IGNORE);
  std::vector<int> in(4, -1);
  MPI_File_seek(file, at, MPI_SEEK_SET);
  MPI_File_iread(file, in.data(), 4, MPI_INT, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  print("four at the file pointer", in == parts ? "right" : "wrong");
  // A blocking call waits for what was begun before it.
  const std::vector<int> last(count, 77);
  MPI_File_iwrite_at(file, at, last.data(), count, MPI_INT, &request);
  MPI_File_read_at(file, at, in.data(), 4, MPI_INT, MPI_STATUS_IGNORE);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  print("a blocking call behind one", in == std::vector<int>(4, 77) ? "right" : "wrong");
  const int code = MPI_File_iwrite_at(file, -1, last.data(), 1, MPI_INT, &request);
  print("a negative offset", class_of(code));
  MPI_File_set_atomicity(file, 1);
  MPI_File_iread_at(file, at, in.data(), 4, MPI_INT, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  print("in atomic mode", in == std::vector<int>(4, 77) ? "right" : "wrong");
  MPI_File_set_atomicity(file, 0);
  // None waits for this one.
  MPI_File_iwrite_at(file, at, parts.data(), 4, MPI_INT, &request);
  MPI_Request_free(&request);
  print("closing", class_of(MPI_File_close(&file)));
  const auto is_kept = [&] {
    const Look look(argv[2]);
    return look.sees(parts, at) && std::all_of(kept.begin(), kept.end(), [&](const auto& one) {
             return look.sees(std::vector<int>(count, one.second), one.first);
           });
  };
  print("what it wrote before", is_kept() ? "right" : "wrong");
  MPI_Finalize();
  return 0;
}
