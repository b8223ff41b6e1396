// A program of MPI-IO that knows nothing of Ferry: representations that it registers itself. Each
// line names a case and what the ranks saw.
//
//   mpiexec -n 2 mpiio_datareps FILE
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <mpi.h>

#include "mpiio/ranks.hpp"

namespace {

// What the functions are given, and what they do.
struct State {
  int calls = 0;
  MPI_Offset next = 0;  // where the next call of a transfer begins
  bool is_in_order = true;
  int fails = MPI_SUCCESS;

  void begin() {
    calls = 0;
    next = 0;
  }
  void count(MPI_Offset position, MPI_Count of_call) {
    is_in_order = is_in_order && position == next;
    next = position + of_call;
    ++calls;
  }
};

// Ints in pairs: two, and a gap of two.
constexpr MPI_Offset place_of(MPI_Offset item) {
  return item / 2 * 4 + item % 2;
}

// Each in two bytes.
template <class Count>
int write_short(void* memory, MPI_Datatype, Count count, void* file, MPI_Offset position,
                void* given) {
  auto& state = *static_cast<State*>(given);
  state.count(position, count);
  auto* to = static_cast<unsigned char*>(file);
  for (MPI_Offset i = position; i < position + count; ++i) {
    const int value = static_cast<int*>(memory)[place_of(i)];
    *to++ = static_cast<unsigned char>(value >> 8);
    *to++ = static_cast<unsigned char>(value);
  }
  return state.fails;
}

template <class Count>
int read_short(void* memory, MPI_Datatype, Count count, void* file, MPI_Offset position,
               void* given) {
  auto& state = *static_cast<State*>(given);
  state.count(position, count);
  const auto* from = static_cast<const unsigned char*>(file);
  for (MPI_Offset i = position; i < position + count; ++i, from += 2)
    static_cast<int*>(memory)[place_of(i)] = from[0] << 8 | from[1];
  return state.fails;
}

int extent_short(MPI_Datatype type, MPI_Aint* extent, void*) {
  *extent = 2;
  return type == MPI_INT ? MPI_SUCCESS : 77;
}

int extent_of_memory(MPI_Datatype type, MPI_Aint* extent, void*) {
  MPI_Aint lower = 0;
  return MPI_Type_get_extent(type, &lower, extent);
}

State state;

std::string ints_of(int code, const MPI_Status& status) {
  int count = 0;
  MPI_Get_count(&status, MPI_INT, &count);
  return class_of(code) + " " + std::to_string(count);
}

int register_short(const char* name) {
#if MPI_VERSION >= 4
  if (std::strcmp(name, "large") == 0)
    return MPI_Register_datarep_c(name, read_short<MPI_Count>, write_short<MPI_Count>, extent_short,
                                  &state);
#endif
  return MPI_Register_datarep(name, read_short<int>, write_short<int>, extent_short, &state);
}

void registering() {
  print("registering", class_of(register_short("short")));
  print("twice", class_of(register_short("short")));
  print("as native", class_of(register_short("native")));
  print("as external32", class_of(register_short("external32")));
  print("a long name", class_of(register_short(std::string(MPI_MAX_DATAREP_STRING, 'x').c_str())));
  print("with large counts", class_of(register_short("large")));
  print("without functions",
        class_of(MPI_Register_datarep("plain", MPI_CONVERSION_FN_NULL, MPI_CONVERSION_FN_NULL,
                                      extent_of_memory, nullptr)));
  print("without functions that it needs",
        class_of(MPI_Register_datarep("lame", MPI_CONVERSION_FN_NULL, MPI_CONVERSION_FN_NULL,
                                      extent_short, nullptr)));
}

// Memory of `count` pairs, with the gaps.
std::vector<int> pairs(int count, int first) {
  std::vector<int> memory(static_cast<std::size_t>(4 * count), -1);
  for (int i = 0; i < 2 * count; ++i)
    memory[static_cast<std::size_t>(place_of(i))] = (first + i) % 60'000;
  return memory;
}

// Views and transfers of all kinds: this rank's ints of the file, four from each rank in turn.
void transfers(MPI_File file, const char* name, MPI_Datatype two) {
  MPI_Datatype four = MPI_DATATYPE_NULL;
  MPI_Type_vector(1, 4, 1, MPI_INT, &four);
  MPI_Datatype view = MPI_DATATYPE_NULL;
  MPI_Type_create_resized(four, 0, 8 * ranks, &view);
  MPI_Type_commit(&view);
  MPI_File_set_size(file, 0);
  int code = MPI_File_set_view(file, 10 + 8 * rank, MPI_INT, view, name, MPI_INFO_NULL);
  print("the view", class_of(code));
  char found[MPI_MAX_DATAREP_STRING] = {};
  MPI_Datatype types[2] = {MPI_DATATYPE_NULL, MPI_DATATYPE_NULL};
  MPI_Offset displacement = 0;
  MPI_File_get_view(file, &displacement, &types[0], &types[1], found);
  MPI_Type_free(&types[1]);
  MPI_Aint extent = 0;
  MPI_File_get_type_extent(file, four, &extent);
  print("its name and the extent of four",
        std::string(std::strcmp(found, name) == 0 ? "right" : found) + " " +
            std::to_string(extent) + (types[0] == MPI_INT ? "" : " wrong"));
  MPI_Type_free(&four);
  MPI_Type_free(&view);

  constexpr int count = 4;
  const std::vector<int> out = pairs(count, 1000 * rank);
  std::vector<int> in(out.size(), -1);
  MPI_Status status;
  MPI_Request request = MPI_REQUEST_NULL;
  std::string all;
  const auto written = [&](int result) {
    all += (all.empty() ? "" : ", ") + ints_of(result, status);
    state.begin();
  };
  state.begin();
  written(MPI_File_write_all(file, out.data(), count, two, &status));
  written(MPI_File_write_at(file, 8, out.data(), count, two, &status));
  MPI_File_iwrite_at_all(file, 16, out.data(), count, two, &request);
  written(MPI_Wait(&request, &status));
  MPI_File_write_at_all_begin(file, 24, out.data(), count, two);
  written(MPI_File_write_at_all_end(file, out.data(), &status));
  print("writing", all);
  MPI_Offset position = 0;
  MPI_File_get_position(file, &position);
  MPI_Offset place = 0;
  MPI_File_get_byte_offset(file, 5, &place);
  print("the position, and the place of the sixth",
        std::to_string(position) + " " + std::to_string(place - 10));
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_Offset size = 0;
  MPI_File_get_size(file, &size);
  print("the size", std::to_string(size));
  bool same = true;
  all.clear();
  const auto was_read = [&](int result) {
    written(result);
    same = same && in == out;
    std::fill(in.begin(), in.end(), -1);
  };
  was_read(MPI_File_read_at_all(file, 24, in.data(), count, two, &status));
  MPI_File_iread_at_all(file, 16, in.data(), count, two, &request);
  was_read(MPI_Wait(&request, &status));
  MPI_File_read_at_all_begin(file, 8, in.data(), count, two);
  was_read(MPI_File_read_at_all_end(file, in.data(), &status));
  was_read(MPI_File_read_at(file, 0, in.data(), count, two, &status));
  print("reading", all);
  print("what was read", same ? "right" : "wrong");
  code = MPI_File_read_at_all(file, 30, in.data(), count, two, &status);
  print("reading over the end", ints_of(code, status));
  state.begin();
  // Nothing of a datatype that the functions do not know, beside others' data, and something of it.
  code = MPI_File_read_all(file, in.data(), rank == 0 ? 0 : count, rank == 0 ? MPI_BYTE : two,
                           &status);
  print("some reading nothing", class_of(code));
  code = MPI_File_read_all(file, in.data(), count, rank == 0 ? MPI_DOUBLE : two, &status);
  print("one reading what it has not", class_of(code));
  state.begin();
  // Ints as the file has them.
  MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL);
  unsigned char bytes[8] = {};
  MPI_File_read_at(file, 10 + 8 * rank, bytes, 8, MPI_BYTE, &status);
  same = true;
  for (int i = 0; i < 4; ++i)
    same = same && bytes[2 * i] * 256 + bytes[2 * i + 1] == 1000 * rank + i;
  print("the bytes in the file", same ? "right" : "wrong");
}

// More than one call of a function converts.
void in_pieces(MPI_File file, MPI_Datatype two) {
  constexpr int count = 400'000;
  const std::vector<int> out = pairs(count, rank);
  std::vector<int> in(out.size(), -1);
  MPI_File_set_view(file, 2'000'000 * rank, MPI_INT, MPI_INT, "short", MPI_INFO_NULL);
  MPI_Status status;
  state.begin();
  int code = MPI_File_write_at_all(file, 0, out.data(), count, two, &status);
  print("writing much", ints_of(code, status) + (state.calls > 1 ? " in pieces" : " at once"));
  state.begin();
  code = MPI_File_read_at_all(file, 0, in.data(), count, two, &status);
  print("reading much", ints_of(code, status) + (state.calls > 1 ? " in pieces" : " at once"));
  print("what that read", in == out ? "right" : "wrong");
  print("positions", state.is_in_order ? "right" : "wrong");
}

void errors(MPI_File file, MPI_Datatype two) {
  std::vector<int> memory = pairs(4, 0);
  MPI_Status status;
  MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "short", MPI_INFO_NULL);
  state.fails = rank == 0 ? 5 : MPI_SUCCESS;
  int code = MPI_File_write_at_all(file, 8 * rank, memory.data(), 4, two, &status);
  print("a function that fails to write on one rank", class_of(code));
  code = MPI_File_read_at_all(file, 8 * rank, memory.data(), 4, two, &status);
  print("one that fails to read", class_of(code));
  MPI_File_read_at_all_begin(file, 8 * rank, memory.data(), 4, two);
  code = MPI_File_read_at_all_end(file, memory.data(), &status);
  print("in the second half", class_of(code));
  code = MPI_File_read_at(file, 8 * rank, memory.data(), 4, two, &status);
  print("alone", class_of(code));
  state.fails = MPI_SUCCESS;
  code = MPI_File_read_at_all(file, 8 * rank, memory.data(), 4, two, &status);
  print("the next", class_of(code));
  code = MPI_File_set_view(file, 0, MPI_DOUBLE, MPI_DOUBLE, "short", MPI_INFO_NULL);
  print("a datatype that it has not", class_of(code));
  MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "lame", MPI_INFO_NULL);
  code = MPI_File_write_at_all(file, 0, memory.data(), 4, two, &status);
  print("sizes that need a function", class_of(code));
  code = MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "nobody's", MPI_INFO_NULL);
  int error_class = MPI_SUCCESS;
  MPI_Error_class(code, &error_class);
  print("a name that is not registered",
        error_class == MPI_ERR_UNSUPPORTED_DATAREP ? "unsupported" : class_of(code));
}

void without_functions(MPI_File file, MPI_Datatype two) {
  const std::vector<int> out = pairs(4, 100 * rank);
  std::vector<int> in(out.size(), -1);
  MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "plain", MPI_INFO_NULL);
  MPI_Status status;
  int code = MPI_File_write_at_all(file, 8 * rank, out.data(), 4, two, &status);
  print("writing without functions", ints_of(code, status));
  code = MPI_File_read_at_all(file, 8 * rank, in.data(), 4, two, &status);
  print("reading so", ints_of(code, status) + (in == out ? "" : " wrong"));
  int plain[8] = {};
  MPI_File_set_view(file, 0, MPI_INT, MPI_INT, "native", MPI_INFO_NULL);
  MPI_File_read_at(file, 8 * rank, plain, 8, MPI_INT, &status);
  print("the same without it", plain[7] == 100 * rank + 7 ? "right" : "wrong");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  begin(argc, argv);
  MPI_Datatype both = MPI_DATATYPE_NULL;
  MPI_Datatype two = MPI_DATATYPE_NULL;
  MPI_Type_contiguous(2, MPI_INT, &both);
  MPI_Type_create_resized(both, 0, 16, &two);
  MPI_Type_commit(&two);
  registering();
  MPI_File file = MPI_FILE_NULL;
  MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
  transfers(file, "short", two);
#if MPI_VERSION >= 4
  transfers(file, "large", two);
#endif
  in_pieces(file, two);
  errors(file, two);
  without_functions(file, two);
  MPI_File_close(&file);
  MPI_Type_free(&both);
  MPI_Type_free(&two);
  MPI_Finalize();
  return 0;
}
