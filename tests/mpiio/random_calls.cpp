// A program of MPI-IO that knows nothing of Ferry: calls chosen at random, the same choices on all
// ranks. It prints what each rank sees, so that two runs of one seed can be compared.
//
//   mpiexec -n 4 mpiio_random_calls FILE SEED CALLS [threads] [blocking] [representations]
//   [by-hand]
//
//   threads          with MPI_THREAD_MULTIPLE
//   blocking         without nonblocking collective transfers
//   representations  views also with external32 and a registered representation; reads of views
//                    that overlap
//   by-hand          the program does that itself, with bytes in the native representation
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
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
bool with_representations = false;
bool by_hand = false;
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
  explicit Type(MPI_Datatype made) : type(made) {}
  Type() = default;
  Type(const Type&) = delete;
  Type& operator=(const Type&) = delete;
  ~Type() {
    if (type != MPI_DATATYPE_NULL) MPI_Type_free(&type);
  }
  void commit() { MPI_Type_commit(&type); }
};

// ---- how numbers lie in the file ----------------------------------------------------------------

// Numbers have four bytes in memory.
constexpr std::size_t number_bytes = 4;

struct Form {
  const char* name;
  int unit;  // bytes of a number
  void (*to_file)(const unsigned char* number, unsigned char* file);
  void (*from_file)(unsigned char* number, const unsigned char* file);
  bool is_native() const { return to_file == nullptr; }
};

void reverse(unsigned char* to, const unsigned char* from) {
  std::reverse_copy(from, from + number_bytes, to);
}
// Other bytes, and one more that depends on them.
void pad(const unsigned char* number, unsigned char* file) {
  file[number_bytes] = 1;
  for (std::size_t i = 0; i < number_bytes; ++i) {
    file[i] = number[i] ^ 0x5a;
    file[number_bytes] = static_cast<unsigned char>(3 * file[number_bytes] + number[i]);
  }
}
void unpad(unsigned char* number, const unsigned char* file) {
  for (std::size_t i = 0; i < number_bytes; ++i)
    number[i] = file[i] ^ 0x5a;
}
void put_reversed(const unsigned char* number, unsigned char* file) {
  reverse(file, number);
}

constexpr Form forms[] = {{"native", 4, nullptr, nullptr},
                          {"external32", 4, put_reversed, reverse},
                          {"padded", 5, pad, unpad}};

const Form& draw_form() {
  return forms[with_representations ? draw(0, 2) : 0];
}

using Bytes = std::vector<unsigned char>;

int packed_bytes(MPI_Datatype type, MPI_Count count) {
  int bytes = 0;
  MPI_Type_size(type, &bytes);
  return bytes * static_cast<int>(count);
}
Bytes packed(const void* memory, MPI_Datatype type, int count) {
  Bytes all(static_cast<std::size_t>(packed_bytes(type, count)));
  int at = 0;
  MPI_Pack(memory, count, type, all.data(), static_cast<int>(all.size()), &at, MPI_COMM_SELF);
  return all;
}
void unpack(const Bytes& all, void* memory, MPI_Datatype type, int count) {
  int at = 0;
  MPI_Unpack(all.data(), static_cast<int>(all.size()), &at, memory, count, type, MPI_COMM_SELF);
}
Bytes in_file(const Form& form, const Bytes& numbers) {
  const std::size_t count = numbers.size() / number_bytes;
  Bytes file(count * static_cast<std::size_t>(form.unit));
  for (std::size_t i = 0; i < count; ++i)
    form.to_file(&numbers[i * number_bytes], &file[i * static_cast<std::size_t>(form.unit)]);
  return file;
}
Bytes in_memory(const Form& form, const Bytes& file) {
  const std::size_t count = file.size() / static_cast<std::size_t>(form.unit);
  Bytes numbers(count * number_bytes);
  for (std::size_t i = 0; i < count; ++i) {
    const unsigned char* from = &file[i * static_cast<std::size_t>(form.unit)];
    if (form.is_native()) {
      std::copy_n(from, number_bytes, &numbers[i * number_bytes]);
    } else {
      form.from_file(&numbers[i * number_bytes], from);
    }
  }
  return numbers;
}

// The functions of "padded". `position` and `count` are in numbers, which may begin within a copy
// of the datatype.
int copies_of(MPI_Datatype type, MPI_Offset numbers) {
  const MPI_Offset of_one = packed_bytes(type, 1) / static_cast<int>(number_bytes);
  return static_cast<int>((numbers + of_one - 1) / of_one);
}
int to_padded(void* memory, MPI_Datatype type, int count, void* file, MPI_Offset position, void*) {
  const Bytes all = packed(memory, type, copies_of(type, position + count));
  for (int i = 0; i < count; ++i)
    pad(&all[static_cast<std::size_t>(position + i) * number_bytes],
        static_cast<unsigned char*>(file) + std::ptrdiff_t{5} * i);
  return MPI_SUCCESS;
}
int from_padded(void* memory, MPI_Datatype type, int count, void* file, MPI_Offset position,
                void*) {
  const int copies = copies_of(type, position + count);
  Bytes all = packed(memory, type, copies);
  for (int i = 0; i < count; ++i)
    unpad(&all[static_cast<std::size_t>(position + i) * number_bytes],
          static_cast<const unsigned char*>(file) + std::ptrdiff_t{5} * i);
  unpack(all, memory, type, copies);
  return MPI_SUCCESS;
}
int extent_padded(MPI_Datatype type, MPI_Aint* extent, void*) {
  *extent = 5;
  return type == MPI_INT || type == MPI_FLOAT ? MPI_SUCCESS : 1;
}

// The type of a number in views of this form.
Type number_of(const Form& form) {
  MPI_Datatype made = MPI_DATATYPE_NULL;
  if (by_hand && !form.is_native()) {
    MPI_Type_contiguous(form.unit, MPI_BYTE, &made);
  } else {
    MPI_Type_dup(MPI_INT, &made);
  }
  MPI_Type_commit(&made);
  return Type(made);
}

// That of the view, on all ranks.
const Form* form_now = &forms[0];

// ---- calls --------------------------------------------------------------------------------------

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
  const Form& form = draw_form();
  const Type number = number_of(form);
  const MPI_Aint unit = form.unit;
  const MPI_Offset displacement = unit * draw(0, 50);
  MPI_Offset begin = displacement;
  const int block = static_cast<int>(draw(1, 40));
  const auto kind = draw(0, 5);
  switch (kind) {
    case 0: {  // interleaved blocks
      const int blocks = static_cast<int>(draw(1, 5));
      MPI_Type_vector(blocks, block, block * ranks, number.type, &view.type);
      MPI_Datatype resized = MPI_DATATYPE_NULL;
      MPI_Type_create_resized(view.type, 0, unit * blocks * block * ranks, &resized);
      MPI_Type_free(&view.type);
      view.type = resized;
      begin += unit * block * rank;
      break;
    }
    case 1: {  // columns of an array
      int sizes[] = {static_cast<int>(draw(1, 6)), block * ranks};
      int subsizes[] = {sizes[0], block};
      int starts[] = {0, block * rank};
      MPI_Type_create_subarray(2, sizes, subsizes, starts, MPI_ORDER_C, number.type, &view.type);
      break;
    }
    case 2: {  // a distributed array, of which each rank has something
      int sizes[] = {static_cast<int>(draw(1, 30)) + 3 * ranks, static_cast<int>(draw(1, 9))};
      int ways[] = {MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_NONE};
      int arguments[] = {static_cast<int>(draw(1, 3)), MPI_DISTRIBUTE_DFLT_DARG};
      int processes[] = {ranks, 1};
      MPI_Type_create_darray(ranks, rank, 2, sizes, ways, arguments, processes, MPI_ORDER_C,
                             number.type, &view.type);
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
      MPI_Type_indexed(static_cast<int>(lengths.size()), lengths.data(), places.data(), number.type,
                       &pieces.type);
      MPI_Type_create_resized(pieces.type, 0, unit * at, &view.type);
      break;
    }
    case 4:  // a part of the file for each rank
      MPI_Type_contiguous(1, number.type, &view.type);
      begin += MPI_Offset{1 << 18} * rank;
      break;
    default: {  // a copy of another type
      Type row;
      MPI_Type_create_resized(number.type, 0, unit * ranks, &row.type);
      MPI_Type_dup(row.type, &view.type);
      begin += unit * rank;
    }
  }
  view.commit();
  form_now = &form;
  const int code = MPI_File_set_view(file, begin, number.type, view.type,
                                     by_hand ? "native" : form.name, MPI_INFO_NULL);
  return "set_view " + std::to_string(kind) + " " + error_of(code);
}

bool reads(int kind) {
  constexpr int reading[] = {1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21};
  return std::ranges::find(reading, kind) != std::end(reading);
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
    MPI_Datatype type = memory_.type;
    int count = own_periods_;
    int code = MPI_SUCCESS;
    const bool converts = by_hand && !form_now->is_native();
    const Type number = number_of(*form_now);
    Bytes of_file;
    Bytes to_file;
    if (converts) {
      to_file = in_file(*form_now, packed(out, type, count));
      of_file.resize(to_file.size());
      count = static_cast<int>(to_file.size()) / form_now->unit;
      type = number.type;
      in = of_file.data();
      out = to_file.data();
    }
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
    if (converts) {
      bytes = bytes / form_now->unit * static_cast<int>(number_bytes);
      if (reads(kind) && bytes > 0)
        unpack(in_memory(*form_now, of_file), data_.data(), memory_.type, own_periods_);
    }
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

// A read by a view whose pieces overlap or whose copies interleave, by a handle for reading alone.
// By hand: of the bytes around it.
std::string read_overlapping(MPI_File file, const char* path) {
  const Form& form = draw_form();
  const Type number = number_of(form);
  const MPI_Aint unit = form.unit;
  std::vector<int> lengths;
  std::vector<int> places;
  std::vector<MPI_Offset> numbers;  // of one copy
  int place = static_cast<int>(draw(0, 5));
  int end = 0;
  for (std::int64_t pieces = draw(1, 8); pieces > 0; --pieces) {
    lengths.push_back(static_cast<int>(draw(1, 12)));
    places.push_back(place);
    for (int i = 0; i < lengths.back(); ++i)
      numbers.push_back(place + i);
    end = std::max(end, place + lengths.back());
    place += static_cast<int>(draw(0, 10));
  }
  const MPI_Offset extent = draw(1, end + 10);
  const MPI_Offset displacement = unit * (draw(0, 50) + 7 * rank);
  const int count = static_cast<int>(draw(1, 400));
  const MPI_Offset from = draw(0, 500);
  const auto kind = draw(0, 2);
  MPI_File_sync(file);
  MPI_Barrier(MPI_COMM_WORLD);
  MPI_File reading = MPI_FILE_NULL;
  MPI_File_open(MPI_COMM_WORLD, path, MPI_MODE_RDONLY, MPI_INFO_NULL, &reading);
  std::vector<int> data(static_cast<std::size_t>(count), -1);
  std::string seen;
  if (by_hand) {
    const auto at = [&](MPI_Offset i) {
      const auto of_one = static_cast<MPI_Offset>(numbers.size());
      return i / of_one * extent + numbers[static_cast<std::size_t>(i % of_one)];
    };
    MPI_Offset last = 0;
    for (int i = 0; i < count; ++i)
      last = std::max(last, at(from + i));
    Bytes around(static_cast<std::size_t>((last + 1) * unit));
    MPI_File_read_at(reading, displacement, around.data(), static_cast<int>(around.size()),
                     MPI_BYTE, MPI_STATUS_IGNORE);
    const Bytes all = in_memory(form, around);
    for (int i = 0; i < count; ++i)
      std::memcpy(&data[static_cast<std::size_t>(i)],
                  &all[static_cast<std::size_t>(at(from + i)) * number_bytes], number_bytes);
    seen = "done, " + std::to_string(4 * count) + " bytes to " + std::to_string(from + count);
  } else {
    Type pieces;
    MPI_Type_indexed(static_cast<int>(lengths.size()), lengths.data(), places.data(), number.type,
                     &pieces.type);
    Type view;
    MPI_Type_create_resized(pieces.type, 0, unit * extent, &view.type);
    view.commit();
    int code =
        MPI_File_set_view(reading, displacement, number.type, view.type, form.name, MPI_INFO_NULL);
    MPI_File_seek(reading, from, MPI_SEEK_SET);
    MPI_Status status;
    std::memset(&status, 0, sizeof status);
    MPI_Request request = MPI_REQUEST_NULL;
    if (code != MPI_SUCCESS) {
      seen = "set_view ";
    } else if (kind == 0) {
      code = MPI_File_read_all(reading, data.data(), count, MPI_INT, &status);
    } else if (kind == 1) {
      code = MPI_File_read(reading, data.data(), count, MPI_INT, &status);
    } else {
      code = MPI_File_iread(reading, data.data(), count, MPI_INT, &request);
      MPI_Wait(&request, &status);
    }
    int bytes = 0;
    MPI_Get_elements(&status, MPI_BYTE, &bytes);
    MPI_Offset position = 0;
    MPI_File_get_position(reading, &position);
    seen += error_of(code) + ", " + std::to_string(bytes) + " bytes to " + std::to_string(position);
  }
  MPI_File_close(&reading);
  const auto* const first = reinterpret_cast<const unsigned char*>(data.data());
  char line[40];
  std::snprintf(line, sizeof line, ", memory %016llx",
                static_cast<unsigned long long>(hash({first, first + 4 * data.size()})));
  return std::string(form.name) + " " + seen + line;
}

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

std::string call(MPI_File file, const char* path, int number, std::string& name) {
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
  if (with_representations && what < 38) {
    name = "reading what overlaps";
    return read_overlapping(file, path);
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
    with_representations = with_representations || std::strcmp(argv[i], "representations") == 0;
    by_hand = by_hand || std::strcmp(argv[i], "by-hand") == 0;
  }
  int provided = 0;
  MPI_Init_thread(&argc, &argv, threads ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  draws.seed(std::strtoull(argv[2], nullptr, 10));
  if (with_representations && !by_hand &&
      MPI_Register_datarep("padded", from_padded, to_padded, extent_padded, nullptr) != MPI_SUCCESS)
    return 1;
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
    const std::string seen = call(file, argv[1], i, name);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) std::printf("%d %s\n", i, name.c_str());
    print(seen);
  }
  print("close " + error_of(MPI_File_close(&file)));
  MPI_Finalize();
  return 0;
}
