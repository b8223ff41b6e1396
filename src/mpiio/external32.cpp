// "external32" (MPI 4.0, 14.5.2): big-endian numbers of sizes that MPI states, without padding.
//
// MPI libraries have it, too (MPI_Pack_external), but MPICH 4.0 ends the program where it meets a
// pair or a structure, and takes Fortran's complex numbers for one.
#include <algorithm>
#include <bit>
#include <cerrno>
#include <cfloat>
#include <cstring>
#include <initializer_list>
#include <map>
#include <vector>

#include <ferry/byte_order.hpp>
#include <ferry/error.hpp>

#include "collective/datatype.hpp"
#include "mpiio/representations.hpp"
#include "mpiio/type_maps.hpp"

namespace ferry::mpiio {
namespace {

enum class Form : std::uint8_t {
  same,            // in memory and in the file, but for the order of bytes
  signed_integer,  // smaller in the file, and so the next
  unsigned_integer,
  extended,  // of 80 bits in memory, IEEE's of 128 in the file
};

// A number of a predefined datatype.
struct Field {
  Form form = Form::same;
  std::int64_t offset = 0;  // in memory
  std::int64_t memory_bytes = 0;
  std::int64_t file_bytes = 0;
};
using Fields = std::vector<Field>;

constexpr bool has_extended = LDBL_MANT_DIG == 64;

Field field(Form form, std::int64_t memory_bytes, std::int64_t file_bytes) {
  return {memory_bytes == file_bytes && form != Form::extended ? Form::same : form, 0, memory_bytes,
          file_bytes};
}

// The predefined datatypes that this library has.
class Table {
 public:
  Table() {
    for (MPI_Datatype type : {MPI_CHAR, MPI_SIGNED_CHAR, MPI_UNSIGNED_CHAR, MPI_BYTE, MPI_PACKED,
                              MPI_CHARACTER, MPI_C_BOOL, MPI_CXX_BOOL, MPI_INT8_T, MPI_UINT8_T})
      add(type, field(Form::same, 1, 1));
    add({MPI_SHORT, MPI_INT16_T, MPI_INTEGER2}, Form::signed_integer, 2);
    add({MPI_INT, MPI_LONG, MPI_INT32_T, MPI_INTEGER, MPI_INTEGER4, MPI_LOGICAL},
        Form::signed_integer, 4);
    add({MPI_LONG_LONG, MPI_INT64_T, MPI_AINT, MPI_OFFSET, MPI_COUNT, MPI_INTEGER8},
        Form::signed_integer, 8);
    add({MPI_INTEGER1}, Form::signed_integer, 1);
    add({MPI_UNSIGNED_SHORT, MPI_UINT16_T, MPI_WCHAR}, Form::unsigned_integer, 2);
    add({MPI_UNSIGNED, MPI_UNSIGNED_LONG, MPI_UINT32_T}, Form::unsigned_integer, 4);
    add({MPI_UNSIGNED_LONG_LONG, MPI_UINT64_T}, Form::unsigned_integer, 8);
    add({MPI_FLOAT, MPI_REAL, MPI_REAL4}, Form::same, 4);
    add({MPI_DOUBLE, MPI_DOUBLE_PRECISION, MPI_REAL8}, Form::same, 8);
    add({MPI_LONG_DOUBLE}, has_extended ? Form::extended : Form::same, 16);
#ifdef MPI_INTEGER16
    add({MPI_INTEGER16}, Form::same, 16);
#endif
#ifdef MPI_REAL16
    add({MPI_REAL16}, Form::same, 16);
#endif
    add_twice({MPI_C_FLOAT_COMPLEX, MPI_CXX_FLOAT_COMPLEX, MPI_COMPLEX, MPI_COMPLEX8}, MPI_FLOAT);
    add_twice({MPI_C_DOUBLE_COMPLEX, MPI_CXX_DOUBLE_COMPLEX, MPI_DOUBLE_COMPLEX, MPI_COMPLEX16},
              MPI_DOUBLE);
    add_twice({MPI_C_LONG_DOUBLE_COMPLEX, MPI_CXX_LONG_DOUBLE_COMPLEX}, MPI_LONG_DOUBLE);
#if defined(MPI_COMPLEX32) && defined(MPI_REAL16)
    add_twice({MPI_COMPLEX32}, MPI_REAL16);
#endif
    add_twice({MPI_2INT}, MPI_INT);
    add_twice({MPI_2INTEGER}, MPI_INTEGER);
    add_twice({MPI_2REAL}, MPI_REAL);
    add_twice({MPI_2DOUBLE_PRECISION}, MPI_DOUBLE_PRECISION);
    add_pair<short>(MPI_SHORT_INT, MPI_SHORT);
    add_pair<long>(MPI_LONG_INT, MPI_LONG);
    add_pair<float>(MPI_FLOAT_INT, MPI_FLOAT);
    add_pair<double>(MPI_DOUBLE_INT, MPI_DOUBLE);
    add_pair<long double>(MPI_LONG_DOUBLE_INT, MPI_LONG_DOUBLE);
  }

  // Null: not known.
  const Fields* find(MPI_Datatype type) const {
    const auto found = fields_.find(type);
    return found == fields_.end() ? nullptr : &found->second;
  }

 private:
  void add(MPI_Datatype type, const Field& field) {
    if (type != MPI_DATATYPE_NULL) fields_.emplace(type, Fields{field});
  }
  void add(std::initializer_list<MPI_Datatype> types, Form form, std::int64_t file_bytes) {
    for (MPI_Datatype type : types) {
      const std::int64_t bytes = type != MPI_DATATYPE_NULL ? size_of(type) : 0;
      const bool converts = form != Form::same && bytes > 0 && bytes <= 8;
      if (bytes == file_bytes || converts) add(type, field(form, bytes, file_bytes));
    }
  }
  // Two numbers of another type.
  void add_twice(std::initializer_list<MPI_Datatype> types, MPI_Datatype of) {
    const Fields* const one = find(of);
    if (one == nullptr) return;
    Fields both{one->front(), one->front()};
    both[1].offset = both[0].memory_bytes;
    for (MPI_Datatype type : types)
      if (type != MPI_DATATYPE_NULL && size_of(type) == 2 * both[1].offset)
        fields_.emplace(type, both);
  }
  template <class Value>
  void add_pair(MPI_Datatype type, MPI_Datatype value) {
    struct Pair {
      Value value;
      int index;
    };
    Fields both{find(value)->front(), find(MPI_INT)->front()};
    both[1].offset = offsetof(Pair, index);
    fields_.emplace(type, both);
  }

  std::map<MPI_Datatype, Fields> fields_;
};

// Those that Fortran programs ask for by precision and range.
Fields fields_by_precision(MPI_Datatype type) {
  int integers = 0;
  int addresses = 0;
  int types = 0;
  int combiner = MPI_COMBINER_NAMED;
  PMPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner);
  const bool is_integer = combiner == MPI_COMBINER_F90_INTEGER;
  const bool is_complex = combiner == MPI_COMBINER_F90_COMPLEX;
  if (!is_integer && !is_complex && combiner != MPI_COMBINER_F90_REAL) return {};
  int asked[2] = {};
  PMPI_Type_get_contents(type, integers, addresses, types, asked, nullptr, nullptr);
  const std::int64_t bytes = size_of(type) / (is_complex ? 2 : 1);
  if (is_integer) {
    const int digits = asked[0];
    const std::int64_t file_bytes =
        digits > 18 ? 16 : (digits > 9 ? 8 : (digits > 4 ? 4 : (digits > 2 ? 2 : 1)));
    if (bytes != file_bytes && bytes > 8) return {};
    return {field(Form::signed_integer, bytes, file_bytes)};
  }
  const auto [precision, range] = asked;
  const std::int64_t file_bytes = precision > 15 || range > 307 ? 16
                                  : precision > 6 || range > 37 ? 8
                                                                : 4;
  // Of the 16 bytes of such a number 10 are used.
  const bool is_extended = has_extended && bytes == 16 && precision <= LDBL_DIG;
  if (bytes != file_bytes) return {};
  Fields fields(is_complex ? 2 : 1, field(is_extended ? Form::extended : Form::same, bytes, bytes));
  fields.back().offset = is_complex ? bytes : 0;
  return fields;
}

Fields fields_of(MPI_Datatype named) {
  static const Table& table = *new Table;
  const Fields* const known = table.find(named);
  Fields fields = known != nullptr ? *known : fields_by_precision(named);
  if (fields.empty())
    throw Error(ENOTSUP, "external32 with a datatype that this MPI library has in another size");
  return fields;
}

#if LDBL_MANT_DIG == 64
__extension__ using Quad = __float128;
#else
using Quad = long double;
#endif

template <class Number>
Number loaded(const std::byte* from) {
  Number number;
  std::memcpy(&number, from, sizeof number);
  return number;
}

template <class Number>
void store(std::byte* to, Number number) {
  std::memcpy(to, &number, sizeof number);
}

std::int64_t signed_at(const std::byte* from, std::int64_t bytes) {
  switch (bytes) {
    case 1:
      return loaded<std::int8_t>(from);
    case 2:
      return loaded<std::int16_t>(from);
    case 4:
      return loaded<std::int32_t>(from);
    default:
      return loaded<std::int64_t>(from);
  }
}

std::int64_t unsigned_at(const std::byte* from, std::int64_t bytes) {
  const std::int64_t value = signed_at(from, bytes);
  if (bytes >= 8) return value;
  return value & ((std::int64_t{1} << (8 * bytes)) - 1);
}

void store_integer(std::byte* to, std::int64_t bytes, std::int64_t value) {
  switch (bytes) {
    case 1:
      return store(to, static_cast<std::int8_t>(value));
    case 2:
      return store(to, static_cast<std::int16_t>(value));
    case 4:
      return store(to, static_cast<std::int32_t>(value));
    default:
      return store(to, value);
  }
}

// In this machine's order, from a number of `from_bytes` to one of `to_bytes`. Of integers the
// lower bytes count.
void resize(const Field& field, const std::byte* from, std::int64_t from_bytes, std::byte* to,
            std::int64_t to_bytes, bool to_file) {
  if (field.form == Form::signed_integer) {
    store_integer(to, to_bytes, signed_at(from, from_bytes));
  } else if (field.form == Form::unsigned_integer) {
    store_integer(to, to_bytes, unsigned_at(from, from_bytes));
  } else if (to_file) {
    store(to, static_cast<Quad>(loaded<long double>(from)));
  } else {
    const auto number = static_cast<long double>(loaded<Quad>(from));
    std::memset(to, 0, static_cast<std::size_t>(to_bytes));
    std::memcpy(to, &number, 10);  // without padding
  }
}

constexpr bool swaps = is_foreign(ByteOrder::big);
constexpr std::size_t number_bytes_max = 16;

void put(const Field& field, const std::byte* memory, std::byte* file) {
  const auto bytes = static_cast<std::size_t>(field.file_bytes);
  if (field.form == Form::same) {
    std::memcpy(file, memory + field.offset, bytes);
  } else {
    resize(field, memory + field.offset, field.memory_bytes, file, field.file_bytes, true);
  }
  if (swaps) std::reverse(file, file + bytes);
}

void get(const Field& field, std::byte* memory, const std::byte* file) {
  std::byte number[number_bytes_max];
  const auto bytes = static_cast<std::size_t>(field.file_bytes);
  std::memcpy(number, file, bytes);
  if (swaps) std::reverse(number, number + bytes);
  if (field.form == Form::same) {
    std::memcpy(memory + field.offset, number, bytes);
  } else {
    resize(field, number, field.file_bytes, memory + field.offset, field.memory_bytes, false);
  }
}

class External32 : public DataRepresentation {
 public:
  std::int64_t bytes_in_file(MPI_Datatype named) const override {
    std::int64_t bytes = 0;
    for (const Field& field : fields_of(named))
      bytes += field.file_bytes;
    return bytes;
  }

  void to_file(const void* memory, std::int64_t count, MPI_Datatype type,
               std::byte* file) const override {
    walk(const_cast<void*>(memory), count, type, [&](const Fields& fields, std::byte* place) {
      for (const Field& field : fields) {
        put(field, place, file);
        file += field.file_bytes;
      }
      return true;
    });
  }

  std::int64_t from_file(void* memory, std::int64_t count, MPI_Datatype type, const std::byte* file,
                         std::int64_t bytes) const override {
    std::int64_t moved = 0;
    walk(memory, count, type, [&](const Fields& fields, std::byte* place) {
      std::int64_t wanted = 0;
      for (const Field& field : fields)
        wanted += field.file_bytes;
      if (wanted > bytes) return false;
      bytes -= wanted;
      for (const Field& field : fields) {
        get(field, place, file);
        file += field.file_bytes;
        moved += field.memory_bytes;
      }
      return true;
    });
    return moved;
  }

 private:
  // Calls use(fields, address) for each predefined datatype, until that is false.
  template <class Use>
  static void walk(void* memory, std::int64_t count, MPI_Datatype type, Use&& use) {
    struct Part {
      collective::Items items;
      Fields fields;
      std::int64_t step = 0;
    };
    std::vector<Part> parts;
    for (const collective::Items& items : collective::items_of(type))
      parts.push_back({items, fields_of(items.type), period_of(items.type)});
    const std::int64_t period = period_of(type);
    auto* base = static_cast<std::byte*>(memory);
    for (std::int64_t copy = 0; copy < count; ++copy, base += period)
      for (const Part& part : parts)
        for (std::int64_t item = 0; item < part.items.count; ++item)
          if (!use(part.fields, base + part.items.offset + item * part.step)) return;
  }
};

}  // namespace

std::int64_t element_bytes(MPI_Datatype type) {
  std::int64_t bytes = -1;
  for (const collective::Items& items : collective::items_of(type)) {
    for (const Field& field : fields_of(items.type)) {
      if (field.form != Form::same || (bytes >= 0 && bytes != field.file_bytes)) return 0;
      bytes = field.file_bytes;
    }
  }
  return bytes < 0 ? 1 : bytes;
}

std::shared_ptr<const DataRepresentation> external32() {
  static const auto& made = *new std::shared_ptr<const DataRepresentation>(new External32);
  return made;
}

}  // namespace ferry::mpiio
