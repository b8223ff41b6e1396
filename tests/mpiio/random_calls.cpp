// A program of MPI-IO that knows nothing of Ferry: calls chosen at random, the same choices on all
// ranks. It prints what each rank sees, so that two runs of one seed can be compared.
//
//   mpiexec -n 4 mpiio_random_calls FILE SEED CALLS [threads] [blocking]
//
//   threads   with MPI_THREAD_MULTIPLE
//   blocking  without nonblocking collective transfers
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <mpi.h>

namespace {

// MPI has functions with large counts from its version 4 on; before, others take their places.
#if MPI_VERSION >= 4
constexpr auto* write_at_all_large = &MPI_File_write_at_all_c;
constexpr auto* read_all_large = &MPI_File_read_all_c;
#else
constexpr auto* write_at_all_large = &MPI_File_write_at_all;
constexpr auto* read_all_large = &MPI_File_read_all;
#endif

int rank = 0;
int ranks = 0;
bool only_blocking = false;
std::mt19937_64 draws;

// The file is always longer than what is read: libraries differ at its end.
constexpr MPI_Offset bytes_min = 16 << 20;

std::int64_t draw(std::int64_t least, std::int64_t most) {
  return std::uniform_int_distribution<std::int64_t>(least, most)(draws);
}

// The lines of all ranks, in their order.
void print(const std::string& line) {
  constexpr int bytes = 256;
  std::vector<char> all(static_cast<std::size_t>(bytes * ranks));
  char own[bytes] = {};
  line.copy(own, bytes - 1);
  MPI_Gather(own, bytes, MPI_CHAR, all.data(), bytes, MPI_CHAR, 0, MPI_COMM_WORLD);
  for (int i = 0; i < ranks && rank == 0; ++i)
    std::printf("  %d: %s\n", i, all.data() + static_cast<std::ptrdiff_t>(i * bytes));
}

std::uint64_t hash(const std::vector<unsigned char>& data) {
  std::uint64_t value = 14695981039346656037U;
  for (const unsigned char byte : data)
    value = (value ^ byte) * 1099511628211U;
  return value;
}

std::string error_of(int code) {
  if (code == MPI_SUCCESS) return "done";
  int error_class = 0;
  MPI_Error_class(code, &error_class);
  return "class " + std::to_string(error_class);
}

struct Type {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  Type() = default;
  Type(const Type&) = delete;
  Type& operator=(const Type&) = delete;
  ~Type() {
    if (type != MPI_DATATYPE_NULL) MPI_Type_free(&type);
  }
  void commit() { MPI_Type_commit(&type); }
};

// Memory of `elements` ints, contiguous or with gaps, and its bytes from the origin on.
std::size_t make_memory(Type& memory, int elements) {
  const auto whole = static_cast<std::size_t>(elements);
  switch (draw(0, 3)) {
    case 0:
      MPI_Type_contiguous(elements, MPI_INT, &memory.type);
      memory.commit();
      return 4 * whole;
    case 1:
      MPI_Type_vector(elements, 1, 3, MPI_INT, &memory.type);
      memory.commit();
      return 12 * whole;
    case 2: {
      std::vector<int> lengths(whole, 1);
      std::vector<MPI_Aint> places;
      for (int i = 0; i < elements; ++i)
        places.push_back(8 * (elements - 1 - i));  // backwards
      MPI_Type_create_hindexed(elements, lengths.data(), places.data(), MPI_INT, &memory.type);
      memory.commit();
      return 8 * whole;
    }
    default: {
      int lengths[] = {1, elements - 1};
      MPI_Aint places[] = {0, 16};
      MPI_Datatype types[] = {MPI_INT, MPI_FLOAT};
      MPI_Type_create_struct(2, lengths, places, types, &memory.type);
      memory.commit();
      return 16 + 4 * whole;
    }
  }
}

// A view in which no two ranks see the same byte, in ints.
std::string set_view(MPI_File file) {
  Type view;
  const MPI_Offset displacement = 4 * draw(0, 50);
  MPI_Offset begin = displacement;
  const int block = static_cast<int>(draw(1, 40));
  const auto kind = draw(0, 5);
  switch (kind) {
    case 0:  // interleaved blocks
      MPI_Type_vector(static_cast<int>(draw(1, 5)), block, block * ranks, MPI_INT, &view.type);
      MPI_Type_commit(&view.type);
      {
        MPI_Datatype resized = MPI_DATATYPE_NULL;
        MPI_Count size = 0;
        MPI_Type_size_x(view.type, &size);
        MPI_Type_create_resized(view.type, 0, static_cast<MPI_Aint>(size * ranks), &resized);
        MPI_Type_free(&view.type);
        view.type = resized;
      }
      begin += MPI_Offset{4} * block * rank;
      break;
    case 1: {  // columns of an array
      int sizes[] = {static_cast<int>(draw(1, 6)), block * ranks};
      int subsizes[] = {sizes[0], block};
      int starts[] = {0, block * rank};
      MPI_Type_create_subarray(2, sizes, subsizes, starts, MPI_ORDER_C, MPI_INT, &view.type);
      break;
    }
    case 2: {  // a distributed array, of which each rank has something
      int sizes[] = {static_cast<int>(draw(1, 30)) + 3 * ranks, static_cast<int>(draw(1, 9))};
      int ways[] = {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_NONE};
      int arguments[] = {static_cast<int>(draw(1, 3)), MPI_DISTRIBUTE_DFLT_DARG};
      int processes[] = {ranks, 1};
      MPI_Type_create_darray(ranks, rank, 2, sizes, ways, arguments, processes, MPI_ORDER_C,
                             MPI_INT, &view.type);
      break;
    }
    case 3: {  // uneven pieces
      std::vector<int> lengths;
      std::vector<int> places;
      int at = 0;
      for (int i = 0; i < 4 * ranks; ++i) {
        const int length = static_cast<int>(draw(1, 9));
        if (i % ranks == rank) {
          lengths.push_back(length);
          places.push_back(at);
        }
        at += length + static_cast<int>(draw(0, 2));
      }
      Type pieces;
      MPI_Type_indexed(static_cast<int>(lengths.size()), lengths.data(), places.data(), MPI_INT,
                       &pieces.type);
      MPI_Type_create_resized(pieces.type, 0, 4 * MPI_Aint{at}, &view.type);
      break;
    }
    case 4:  // a part of the file for each rank
      MPI_Type_contiguous(1, MPI_INT, &view.type);
      begin += MPI_Offset{1 << 18} * rank;
      break;
    default: {  // a copy of another type
      Type row;
      MPI_Type_create_resized(MPI_INT, 0, 4 * MPI_Aint{ranks}, &row.type);
      MPI_Type_dup(row.type, &view.type);
      begin += MPI_Offset{4} * rank;
    }
  }
  view.commit();
  const int code = MPI_File_set_view(file, begin, MPI_INT, view.type, "native", MPI_INFO_NULL);
  return "set_view " + std::to_string(kind) + " " + error_of(code);
}

class Transfer {
 public:
  Transfer(MPI_File file, int call) : file_(file) {
    elements_ = static_cast<int>(draw(2, 300));
    periods_ = static_cast<int>(draw(0, 3));
    bytes_ = make_memory(memory_, elements_);
    // Ranks have different amounts, also none.
    for (int i = 0; i < ranks; ++i) {
      const int periods = draw(0, 3) == 0 ? static_cast<int>(draw(0, 2)) : periods_;
      if (i == rank) own_periods_ = periods;
    }
    MPI_Aint lower = 0;
    MPI_Aint extent = 0;
    MPI_Type_get_extent(memory_.type, &lower, &extent);
    data_.assign(bytes_ + static_cast<std::size_t>(extent) * 4, 0xee);
    for (std::size_t i = 0; i < data_.size(); ++i)
      written_.push_back(static_cast<unsigned char>(i * 7 + static_cast<std::size_t>(call) * 13 +
                                                    static_cast<std::size_t>(rank) * 101));
  }

  // Returns what this rank sees.
  std::string make(int kind, MPI_Offset offset) {
    MPI_Status status;
    std::memset(&status, 0, sizeof status);
    MPI_Request request = MPI_REQUEST_NULL;
    void* in = data_.data();
    const void* out = written_.data();
    const MPI_Datatype type = memory_.type;
    const int count = own_periods_;
    int code = MPI_SUCCESS;
    switch (kind) {
      case 0:
        code = MPI_File_write_all(file_, out, count, type, &status);
        break;
      case 1:
        code = MPI_File_read_all(file_, in, count, type, &status);
        break;
      case 2:
        code = MPI_File_write_at_all(file_, offset, out, count, type, &status);
        break;
      case 3:
        code = MPI_File_read_at_all(file_, offset, in, count, type, &status);
        break;
      case 4:
        code = MPI_File_write_all_begin(file_, out, count, type);
        if (code == MPI_SUCCESS) code = MPI_File_write_all_end(file_, out, &status);
        break;
      case 5:
        code = MPI_File_read_all_begin(file_, in, count, type);
        if (code == MPI_SUCCESS) code = MPI_File_read_all_end(file_, in, &status);
        break;
      case 6:
        code = MPI_File_write_at_all_begin(file_, offset, out, count, type);
        if (code == MPI_SUCCESS) code = MPI_File_write_at_all_end(file_, out, &status);
        break;
      case 7:
        code = MPI_File_read_at_all_begin(file_, offset, in, count, type);
        if (code == MPI_SUCCESS) code = MPI_File_read_at_all_end(file_, in, &status);
        break;
      case 8:
        code = MPI_File_write_at(file_, offset, out, count, type, &status);
        break;
      case 9:
        code = MPI_File_read_at(file_, offset, in, count, type, &status);
        break;
      case 10:
        code = MPI_File_write(file_, out, count, type, &status);
        break;
      case 11:
        code = MPI_File_read(file_, in, count, type, &status);
        break;
      case 12:
        if (only_blocking) return make(2, offset);
        code = MPI_File_iwrite_at_all(file_, offset, out, count, type, &request);
        MPI_Wait(&request, &status);
        break;
      case 13:
        if (only_blocking) return make(1, offset);
        code = MPI_File_iread_all(file_, in, count, type, &request);
        MPI_Wait(&request, &status);
        break;
      case 14:
        code = write_at_all_large(file_, offset, out, count, type, &status);
        break;
      case 15:
        code = read_all_large(file_, in, count, type, &status);
        break;
      case 16:
        code = MPI_File_write_ordered(file_, out, count, type, &status);
        break;
      case 17:
        code = MPI_File_read_ordered(file_, in, count, type, &status);
        break;
      case 18:
        code = MPI_File_write_ordered_begin(file_, out, count, type);
        if (code == MPI_SUCCESS) code = MPI_File_write_ordered_end(file_, out, &status);
        break;
      case 19:
        code = MPI_File_read_ordered_begin(file_, in, count, type);
        if (code == MPI_SUCCESS) code = MPI_File_read_ordered_end(file_, in, &status);
        break;
      default:
        // One after another, so that all runs have the same order.
        for (int turn = 0; turn < ranks; ++turn) {
          MPI_Barrier(MPI_COMM_WORLD);
          if (turn != rank) continue;
          if (kind == 20) code = MPI_File_write_shared(file_, out, count, type, &status);
          if (kind == 21) code = MPI_File_read_shared(file_, in, count, type, &status);
          if (kind == 22) code = MPI_File_iwrite_shared(file_, out, count, type, &request);
          if (kind == 22) MPI_Wait(&request, &status);
        }
        break;
    }
    int bytes = 0;
    MPI_Get_elements(&status, MPI_BYTE, &bytes);
    MPI_Offset position = 0;
    MPI_File_get_position(file_, &position);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Offset shared = 0;
    MPI_File_get_position_shared(file_, &shared);
    char line[200];
    std::snprintf(line, sizeof line, "%s, %d bytes, positions %lld and %lld, memory %016llx",
                  error_of(code).c_str(), bytes, static_cast<long long>(position),
                  static_cast<long long>(shared), static_cast<unsigned long long>(hash(data_)));
    return line;
  }

 private:
  MPI_File file_;
  Type memory_;
  int elements_ = 0;
  int periods_ = 0;
  int own_periods_ = 0;
  std::size_t bytes_ = 0;
  std::vector<unsigned char> data_;
  std::vector<unsigned char> written_;
};

constexpr const char* kinds[] = {"write_all",
                                 "read_all",
                                 "write_at_all",
                                 "read_at_all",
                                 "write_all_begin",
                                 "read_all_begin",
                                 "write_at_all_begin",
                                 "read_at_all_begin",
                                 "write_at",
                                 "read_at",
                                 "write",
                                 "read",
                                 "iwrite_at_all",
                                 "iread_all",
                                 "write_at_all_c",
                                 "read_all_c",
                                 "write_ordered",
                                 "read_ordered",
                                 "write_ordered_begin",
                                 "read_ordered_begin",
                                 "write_shared",
                                 "read_shared",
                                 "iwrite_shared"};

std::string call(MPI_File file, int number, std::string& name) {
  const auto what = draw(0, 99);
  if (what < 12) {
    name = "set_view";
    return set_view(file);
  }
  if (what < 15) {
    name = "set_size";
    return error_of(MPI_File_set_size(file, draw(bytes_min, 2 * bytes_min)));
  }
  if (what < 19) {
    name = "sync";
    return error_of(MPI_File_sync(file));
  }
  if (what < 21) {
    name = "set_atomicity";
    return error_of(MPI_File_set_atomicity(file, static_cast<int>(draw(0, 1))));
  }
  if (what < 26) {
    name = "seek";
    const MPI_Offset to = draw(0, 1000);
    return error_of(MPI_File_seek(file, to, MPI_SEEK_SET));
  }
  if (what < 28) {
    name = "get_size";
    MPI_Offset bytes = 0;
    const int code = MPI_File_get_size(file, &bytes);
    return error_of(code) + " " + std::to_string(bytes);
  }
  if (what < 32) {
    name = "seek_shared";
    const MPI_Offset to = draw(0, 1000);
    const int whence = draw(0, 1) == 0 ? MPI_SEEK_SET : MPI_SEEK_CUR;
    return error_of(MPI_File_seek_shared(file, to, whence));
  }
  const int kind = static_cast<int>(draw(0, 22));
  const MPI_Offset offset = draw(0, 2000);
  name = kinds[kind];
  return Transfer(file, number).make(kind, offset);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  bool threads = false;
  for (int i = 4; i < argc; ++i) {
    threads = threads || std::strcmp(argv[i], "threads") == 0;
    only_blocking = only_blocking || std::strcmp(argv[i], "blocking") == 0;
  }
  int provided = 0;
  MPI_Init_thread(&argc, &argv, threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  draws.seed(std::strtoull(argv[2], nullptr, 10));
  MPI_File file = MPI_FILE_NULL;
  const int code =
      MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
  print("open " + error_of(code));
  if (code != MPI_SUCCESS) MPI_Abort(MPI_COMM_WORLD, 1);
  MPI_File_set_size(file, bytes_min);
  print(set_view(file));
  print(Transfer(file, -1).make(0, 0));  // before the draws may leave all others to the library
  const int calls = std::atoi(argv[3]);
  for (int i = 0; i < calls; ++i) {
    std::string name;
    const std::string seen = call(file, i, name);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) std::printf("%d %s\n", i, name.c_str());
    print(seen);
  }
  print("close " + error_of(MPI_File_close(&file)));
  MPI_Finalize();
  return 0;
}
