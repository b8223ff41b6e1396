// A program of MPI-IO that knows nothing of Ferry: files in "external32". What they must hold is
// worked out here, number by number. Each line names a case and what the ranks saw.
//
//   mpiexec -n 2 mpiio_external32 FILE SEED      all cases
//   mpiexec -n 2 mpiio_external32 FILE           those that end no MPI library
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include <mpi.h>

#include "mpiio/ranks.hpp"

namespace {

using Bytes = std::vector<unsigned char>;

std::mt19937_64 draws;

std::int64_t draw(std::int64_t least, std::int64_t most) {
  return std::uniform_int_distribution<std::int64_t>(least, most)(draws);
}

// The last `bytes` bytes of a number, big-endian.
void put_integer(Bytes& to, std::int64_t value, int bytes) {
  for (int i = bytes - 1; i >= 0; --i)
    to.push_back(static_cast<unsigned char>(static_cast<std::uint64_t>(value) >> (8 * i)));
}

void put_double(Bytes& to, double value) {
  std::int64_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  put_integer(to, bits, 8);
}

// IEEE's format of 128 bits.
void put_quad(Bytes& to, std::int64_t value) {
  auto rest = static_cast<std::uint64_t>(value < 0 ? -value : value);
  int exponent = 63;
  while (exponent > 0 && (rest >> exponent) == 0)
    --exponent;
  const int sign = value < 0 ? 0x8000 : 0;
  put_integer(to, value == 0 ? 0 : sign | (16383 + exponent), 2);
  rest = value == 0 || exponent == 0 ? 0 : rest << (64 - exponent);
  put_integer(to, static_cast<std::int64_t>(rest), 8);
  put_integer(to, 0, 6);
}

template <class Number>
void store(unsigned char* to, Number number) {
  if constexpr (sizeof(Number) == 16) {  // of which six are padding
    std::memset(to, 0, 16);
    std::memcpy(to, &number, 10);
  } else {
    std::memcpy(to, &number, sizeof number);
  }
}

template <class Value>
struct Pair {
  Value value;
  int index;
};

// A predefined datatype: stores a value in memory, and appends what the file has for it.
struct Named {
  const char* name;
  MPI_Datatype type;
  std::size_t extent;
  std::int64_t file_bytes;
  void (*put)(std::int64_t value, unsigned char* memory, Bytes& file);
};

#define INTEGER(type, number, bytes)                                           \
  {                                                                            \
#type, type, sizeof(number), bytes,                                          \
   [](std::int64_t value, unsigned char* memory, Bytes& file) {                 \
     const auto stored = static_cast<number>(value);                            \
     store(memory, stored);                                                     \
     put_integer(file, static_cast<std::int64_t>(stored), bytes);               \
   } \
  }
#define PAIR(type, number, bytes, put_number)                                  \
  {                                                                            \
#type, type, sizeof(Pair<number>), bytes,                                    \
   [](std::int64_t value, unsigned char* memory, Bytes& file) {                 \
     store(memory, static_cast<number>(value));                                 \
     store(memory + offsetof(Pair<number>, index), static_cast<int>(value + 1)); \
     put_number;                                                                \
     put_integer(file, value + 1, 4);                                           \
   } \
  }

// In the order in which the program names them.
std::vector<Named> all_named() {
  return {
      INTEGER(MPI_CHAR, signed char, 1),
      INTEGER(MPI_SHORT, short, 2),
      INTEGER(MPI_UNSIGNED_SHORT, unsigned short, 2),
      INTEGER(MPI_INT, int, 4),
      INTEGER(MPI_LONG, long, 4),
      INTEGER(MPI_UNSIGNED_LONG, unsigned long, 4),
      INTEGER(MPI_LONG_LONG, long long, 8),
      INTEGER(MPI_AINT, MPI_Aint, 8),
      INTEGER(MPI_LOGICAL, int, 4),
      {"MPI_DOUBLE", MPI_DOUBLE, 8, 8,
       [](std::int64_t value, unsigned char* memory, Bytes& file) {
         store(memory, static_cast<double>(value) / 8);
         put_double(file, static_cast<double>(value) / 8);
       }},
      {"MPI_LONG_DOUBLE", MPI_LONG_DOUBLE, 16, 16,
       [](std::int64_t value, unsigned char* memory, Bytes& file) {
         store(memory, static_cast<long double>(value));
         put_quad(file, value);
       }},
      {"MPI_C_DOUBLE_COMPLEX", MPI_C_DOUBLE_COMPLEX, 16, 16,
       [](std::int64_t value, unsigned char* memory, Bytes& file) {
         const double both[] = {static_cast<double>(value), static_cast<double>(-value)};
         std::memcpy(memory, both, sizeof both);
         put_double(file, both[0]);
         put_double(file, both[1]);
       }},
      {"MPI_DOUBLE_COMPLEX", MPI_DOUBLE_COMPLEX, 16, 16,
       [](std::int64_t value, unsigned char* memory, Bytes& file) {
         const double both[] = {static_cast<double>(value), static_cast<double>(value + 3)};
         std::memcpy(memory, both, sizeof both);
         put_double(file, both[0]);
         put_double(file, both[1]);
       }},
      // MPICH 4.0 ends the program at these.
      INTEGER(MPI_WCHAR, std::uint32_t, 2),
      PAIR(MPI_SHORT_INT, short, 6, put_integer(file, static_cast<short>(value), 2)),
      PAIR(MPI_LONG_INT, long, 8, put_integer(file, value, 4)),
      PAIR(MPI_DOUBLE_INT, double, 12, put_double(file, static_cast<double>(value))),
      PAIR(MPI_LONG_DOUBLE_INT, long double, 20, put_quad(file, value)),
      PAIR(MPI_2INT, int, 8, put_integer(file, value, 4)),
  };
}
constexpr std::size_t named_for_all = 13;

Bytes contents(MPI_File file, MPI_Offset from, std::size_t bytes) {
  Bytes found(bytes, 0xee);
  MPI_File_set_view(file, 0, MPI_BYTE, MPI_BYTE, "native", MPI_INFO_NULL);
  MPI_File_read_at(file, from, found.data(), static_cast<int>(bytes), MPI_BYTE, MPI_STATUS_IGNORE);
  return found;
}

// A value that its datatype and the file can hold.
std::int64_t value_for(const Named& of) {
  if (of.file_bytes == 1) return draw(0, 100);
  if (std::strcmp(of.name, "MPI_WCHAR") == 0) return draw(0, 60'000);
  if (std::strstr(of.name, "UNSIGNED") != nullptr) return draw(0, 65'535);
  if (of.type == MPI_LONG_DOUBLE || of.type == MPI_LONG_LONG) return draw(-(1LL << 62), 1LL << 62);
  return draw(-30'000, 30'000);
}

// Three of a datatype, by each rank.
void of_one_datatype(MPI_File file, const Named& of) {
  constexpr int count = 3;
  const MPI_Offset from = 64;
  Bytes memory(count * of.extent, 0);
  Bytes wanted;
  std::vector<Bytes> all;
  for (int of_rank = 0; of_rank < ranks; ++of_rank) {
    Bytes mine(count * of.extent, 0);
    for (std::size_t i = 0; i < count; ++i)
      of.put(value_for(of), mine.data() + i * of.extent, wanted);
    if (of_rank == rank) memory = mine;
  }
  std::string seen;
  int code = MPI_File_set_view(file, from, of.type, of.type, "external32", MPI_INFO_NULL);
  MPI_Aint extent = 0;
  MPI_File_get_type_extent(file, of.type, &extent);
  if (extent != of.file_bytes) seen += " another extent";
  MPI_Status status;
  if (code == MPI_SUCCESS)
    code = MPI_File_write_at_all(file, count * rank, memory.data(), count, of.type, &status);
  int moved = 0;
  MPI_Get_count(&status, of.type, &moved);
  if (code != MPI_SUCCESS || moved != count) seen += " not written";
  Bytes back(memory.size(), 0);
  code = MPI_File_read_at_all(file, count * rank, back.data(), count, of.type, &status);
  MPI_Get_count(&status, of.type, &moved);
  if (code != MPI_SUCCESS || moved != count) seen += " not read";
  if (back != memory) seen += " other data";
  MPI_Barrier(MPI_COMM_WORLD);
  if (contents(file, from, wanted.size()) != wanted) seen += " other bytes";
  print(of.name, seen.empty() ? "right" : seen.substr(1));
}

// ---- datatypes at random ------------------------------------------------------------------------

// A structure of random members, in memory as it comes, and what the file has for it.
struct Structure {
  explicit Structure(const std::vector<Named>& named) {
    std::vector<int> lengths;
    std::vector<MPI_Aint> places;
    std::vector<MPI_Datatype> types;
    MPI_Aint at = 16 * draw(0, 1);
    for (std::int64_t i = draw(1, 5); i > 0; --i) {
      const Named& member = named[static_cast<std::size_t>(draw(0, std::ssize(named) - 1))];
      lengths.push_back(static_cast<int>(draw(1, 3)));
      places.push_back(at);
      types.push_back(member.type);
      for (int j = 0; j < lengths.back(); ++j) {
        members.push_back({member, at});
        at += static_cast<MPI_Aint>(member.extent);
      }
      at = (at + 15) / 16 * 16 + 16 * draw(0, 1);
    }
    MPI_Datatype plain = MPI_DATATYPE_NULL;
    MPI_Type_create_struct(static_cast<int>(types.size()), lengths.data(), places.data(),
                           types.data(), &plain);
    MPI_Type_create_resized(plain, 0, at, &type);
    MPI_Type_free(&plain);
    MPI_Type_commit(&type);
    extent = static_cast<std::size_t>(at);
    for (const auto& [member, place] : members)
      file_bytes += member.file_bytes;
  }
  ~Structure() { MPI_Type_free(&type); }
  Structure(const Structure&) = delete;
  Structure& operator=(const Structure&) = delete;

  void put(unsigned char* memory, Bytes& file) const {
    for (const auto& [member, place] : members)
      member.put(value_for(member), memory + place, file);
  }

  MPI_Datatype type = MPI_DATATYPE_NULL;
  std::size_t extent = 0;
  std::int64_t file_bytes = 0;
  std::vector<std::pair<Named, MPI_Aint>> members;
};

int write(MPI_File file, int kind, MPI_Offset at, const void* data, int count, MPI_Datatype type) {
  MPI_Status status;
  MPI_Request request = MPI_REQUEST_NULL;
  int code = MPI_SUCCESS;
  switch (kind) {
    case 0:
      code = MPI_File_write_at_all(file, at, data, count, type, &status);
      break;
    case 1:
      code = MPI_File_write_at(file, at, data, count, type, &status);
      break;
    case 2:
      code = MPI_File_write_at_all_begin(file, at, data, count, type);
      if (code == MPI_SUCCESS) code = MPI_File_write_at_all_end(file, data, &status);
      break;
    case 3:
      code = MPI_File_iwrite_at_all(file, at, data, count, type, &request);
      MPI_Wait(&request, &status);
      break;
    default:
      MPI_File_seek(file, at, MPI_SEEK_SET);
      code = MPI_File_write_all(file, data, count, type, &status);
  }
  int moved = -1;
  if (code == MPI_SUCCESS) MPI_Get_count(&status, type, &moved);
  return moved;
}

int read(MPI_File file, int kind, MPI_Offset at, void* data, int count, MPI_Datatype type) {
  MPI_Status status;
  MPI_Request request = MPI_REQUEST_NULL;
  int code = MPI_SUCCESS;
  switch (kind) {
    case 0:
      code = MPI_File_read_at_all(file, at, data, count, type, &status);
      break;
    case 1:
      code = MPI_File_read_at(file, at, data, count, type, &status);
      break;
    case 2:
      code = MPI_File_read_at_all_begin(file, at, data, count, type);
      if (code == MPI_SUCCESS) code = MPI_File_read_at_all_end(file, data, &status);
      break;
    case 3: {
      MPI_Datatype other = MPI_DATATYPE_NULL;  // that is gone when the data comes
      MPI_Type_dup(type, &other);
      code = MPI_File_iread_at_all(file, at, data, count, other, &request);
      MPI_Type_free(&other);
      MPI_Wait(&request, &status);
      break;
    }
    default:
      MPI_File_seek(file, at, MPI_SEEK_SET);
      code = MPI_File_read_all(file, data, count, type, &status);
  }
  int moved = -1;
  if (code == MPI_SUCCESS) MPI_Get_count(&status, type, &moved);
  return moved;
}

// Structures of all ranks, one after another or in blocks that take turns.
std::string at_random(MPI_File file, const std::vector<Named>& named) {
  const Structure structure(named);
  const MPI_Offset from = draw(0, 100);
  const auto is_in_turn = draw(0, 1) == 1;
  const auto has_numbers = draw(0, 1) == 1;  // the etype is not of bytes
  std::vector<Bytes> memories;
  std::vector<Bytes> files;
  std::vector<int> counts;
  for (int i = 0; i < ranks; ++i) {
    counts.push_back(static_cast<int>(draw(0, 40)));
    const auto count = static_cast<std::size_t>(counts.back());
    Bytes& memory = memories.emplace_back(count * structure.extent + 1, 0);
    Bytes& wanted = files.emplace_back();
    for (std::size_t copy = 0; copy < count; ++copy)
      structure.put(memory.data() + copy * structure.extent, wanted);
  }
  const auto own = static_cast<std::size_t>(rank);
  // The view: so many bytes of each rank in turn.
  const std::int64_t block = has_numbers ? structure.file_bytes : draw(1, 50);
  MPI_Datatype etype = MPI_BYTE;
  if (has_numbers) {  // as it lies in the file, without gaps
    std::vector<int> lengths;
    std::vector<MPI_Aint> places;
    std::vector<MPI_Datatype> types;
    MPI_Aint at = 0;
    for (const auto& [member, place] : structure.members) {
      lengths.push_back(1);
      places.push_back(at);
      types.push_back(member.type);
      at += member.file_bytes;
    }
    MPI_Type_create_struct(static_cast<int>(types.size()), lengths.data(), places.data(),
                           types.data(), &etype);
    MPI_Type_commit(&etype);
  }
  MPI_Datatype pieces = MPI_DATATYPE_NULL;
  MPI_Datatype view = MPI_DATATYPE_NULL;
  MPI_Type_contiguous(has_numbers ? 1 : static_cast<int>(block), etype, &pieces);
  MPI_Type_create_resized(pieces, 0, static_cast<MPI_Aint>(is_in_turn ? block * ranks : block),
                          &view);
  MPI_Type_commit(&view);
  const MPI_Offset begin = from + rank * (is_in_turn ? block : 100'000);
  std::string seen;
  if (MPI_File_set_view(file, begin, etype, view, "external32", MPI_INFO_NULL) != MPI_SUCCESS)
    seen += " no view";
  const MPI_Offset skipped = draw(0, 5);
  const MPI_Offset at = skipped * (has_numbers ? 1 : structure.file_bytes);
  const int kind = static_cast<int>(draw(0, 4));
  if (write(file, kind, at, memories[own].data(), counts[own], structure.type) != counts[own])
    seen += " not written";
  MPI_Barrier(MPI_COMM_WORLD);
  Bytes back(memories[own].size(), 0);
  const int other_kind = static_cast<int>(draw(0, 4));
  if (read(file, other_kind, at, back.data(), counts[own], structure.type) != counts[own])
    seen += " not read";
  if (back != memories[own]) seen += " other data";
  if (other_kind == 4) {
    MPI_Offset position = 0;
    MPI_File_get_position(file, &position);
    if (position != at + counts[own] * (has_numbers ? 1 : structure.file_bytes))
      seen += " another position";
  }
  MPI_Offset place = 0;
  MPI_File_get_byte_offset(file, at, &place);
  const std::int64_t stream = skipped * structure.file_bytes;
  const auto place_of = [&](int of, std::int64_t byte) {
    const MPI_Offset of_rank = from + of * (is_in_turn ? block : 100'000);
    return of_rank + (is_in_turn ? byte / block * block * ranks + byte % block : byte);
  };
  if (place != place_of(rank, stream)) seen += " another place";
  const Bytes all = contents(file, 0, static_cast<std::size_t>(from) + 100'000 * 5);
  for (int of = 0; of < ranks; ++of) {
    const Bytes& wanted = files[static_cast<std::size_t>(of)];
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      const MPI_Offset byte = place_of(of, stream + static_cast<std::int64_t>(i));
      if (all[static_cast<std::size_t>(byte)] == wanted[i]) continue;
      seen += " other bytes";
      break;
    }
  }
  MPI_Type_free(&view);
  MPI_Type_free(&pieces);
  if (has_numbers) MPI_Type_free(&etype);
  MPI_Barrier(MPI_COMM_WORLD);
  return seen;
}

// Displacements in numbers are those of the file.
void of_a_scaled_view(MPI_File file) {
  MPI_Datatype view = MPI_DATATYPE_NULL;
  MPI_Type_vector(3, 1, 2, MPI_LONG, &view);
  MPI_Type_commit(&view);
  MPI_File_set_view(file, 8, MPI_LONG, view, "external32", MPI_INFO_NULL);
  MPI_Offset places[3] = {};
  for (int i = 0; i < 3; ++i)
    MPI_File_get_byte_offset(file, i + 1, &places[i]);
  print("every other long", std::to_string(places[0]) + " " + std::to_string(places[1]) + " " +
                                std::to_string(places[2]));
  MPI_Aint extent = 0;
  MPI_File_get_type_extent(file, view, &extent);
  print("their extent", std::to_string(extent));
  MPI_Type_free(&view);
  // The file ends in the middle of the fourth.
  MPI_File_set_view(file, 0, MPI_LONG, MPI_LONG, "external32", MPI_INFO_NULL);
  MPI_File_set_size(file, 14);
  long found[5] = {-1, -1, -1, -1, -1};
  MPI_Status status;
  MPI_File_read_at_all(file, 0, found, 5, MPI_LONG, &status);
  int count = 0;
  MPI_Get_count(&status, MPI_LONG, &count);
  print("longs before the end", std::to_string(count) + " " + std::to_string(found[3]));
  char name[MPI_MAX_DATAREP_STRING] = {};
  MPI_Datatype types[2] = {MPI_DATATYPE_NULL, MPI_DATATYPE_NULL};
  MPI_Offset displacement = 0;
  MPI_File_get_view(file, &displacement, &types[0], &types[1], name);
  print("the view's name", name);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  begin(argc, argv);
  const bool has_all = argc > 2;
  draws.seed(has_all ? std::strtoull(argv[2], nullptr, 10) : 1);
  MPI_File file = MPI_FILE_NULL;
  MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &file);
  const std::vector<Named> named = all_named();
  for (std::size_t i = 0; i < (has_all ? named.size() : named_for_all); ++i)
    of_one_datatype(file, named[i]);
  if (has_all) {
    std::string seen;
    for (int i = 0; i < 40 && seen.empty(); ++i)
      seen = at_random(file, named);
    print("structures at random", seen.empty() ? "right" : seen.substr(1));
    of_a_scaled_view(file);
  }
  MPI_File_close(&file);
  MPI_Finalize();
  return 0;
}
