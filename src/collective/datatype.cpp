// Converts MPI datatypes to type maps.
#include "collective/datatype.hpp"

#include <algorithm>
#include <cerrno>

#include <ferry/collective.hpp>

#include "collective/extents.hpp"

namespace ferry::collective {
namespace {

using Extents = std::vector<Extent>;

#if defined(FERRY_MPI_UNLINKED) && MPI_VERSION >= 4
#pragma weak MPI_Type_get_envelope_c
#pragma weak MPI_Type_get_contents_c
#endif

// Whether datatypes may have counts that an int does not hold. A library that was not linked may be
// older than its header.
bool has_large_counts() {
#if MPI_VERSION < 4
  return false;
#elif defined(FERRY_MPI_UNLINKED)
  return MPI_Type_get_envelope_c != nullptr && MPI_Type_get_contents_c != nullptr;
#else
  return true;
#endif
}

// How much MPI tells about how a datatype was constructed.
struct Envelope {
  explicit Envelope(MPI_Datatype type) {
#if MPI_VERSION >= 4
    if (has_large_counts()) {
      MPI_Type_get_envelope_c(type, &integers, &addresses, &large_counts, &types, &combiner);
      return;
    }
#endif
    int integer_count = 0;
    int address_count = 0;
    int type_count = 0;
    MPI_Type_get_envelope(type, &integer_count, &address_count, &type_count, &combiner);
    integers = integer_count;
    addresses = address_count;
    types = type_count;
  }

  MPI_Count integers = 0;
  MPI_Count addresses = 0;
  MPI_Count large_counts = 0;
  MPI_Count types = 0;
  int combiner = MPI_COMBINER_NAMED;
};

// How a datatype was constructed, in the numbering of constructors with int counts. Frees the
// datatypes that the query has created.
class Contents {
 public:
  explicit Contents(MPI_Datatype type) {
    const Envelope sizes(type);
    combiner = sizes.combiner;
    if (combiner == MPI_COMBINER_NAMED || sizes.types == 0) return;
    std::vector<int> numbers(index(sizes.integers));
    std::vector<MPI_Aint> places(index(sizes.addresses));
    types.resize(index(sizes.types));
    std::vector<MPI_Count> large(index(sizes.large_counts));
    if (has_large_counts()) {
#if MPI_VERSION >= 4
      MPI_Type_get_contents_c(type, sizes.integers, sizes.addresses, sizes.large_counts,
                              sizes.types, numbers.data(), places.data(), large.data(),
                              types.data());
#endif
    } else {
      MPI_Type_get_contents(type, static_cast<int>(sizes.integers),
                            static_cast<int>(sizes.addresses), static_cast<int>(sizes.types),
                            numbers.data(), places.data(), types.data());
    }
    integers.assign(numbers.begin(), numbers.end());
    addresses.assign(places.begin(), places.end());
    if (!large.empty()) arrange({large.begin(), large.end()});
  }
  ~Contents() {
    for (MPI_Datatype& type : types)
      if (!is_named(type)) MPI_Type_free(&type);
  }
  Contents(const Contents&) = delete;
  Contents& operator=(const Contents&) = delete;

  int combiner = MPI_COMBINER_NAMED;
  std::vector<std::int64_t> integers;
  std::vector<std::int64_t> addresses;
  std::vector<MPI_Datatype> types;  // that it is made of

 private:
  static std::size_t index(MPI_Count count) {
    return static_cast<std::size_t>(count);
  }

  // Datatypes with large counts (mpi4py's are all such) have their counts and byte displacements in
  // a separate list.
  void arrange(const std::vector<std::int64_t>& large) {
    std::ptrdiff_t before = 0;  // integers that come before the counts
    std::ptrdiff_t counts = std::ssize(large);
    switch (combiner) {
      case MPI_COMBINER_SUBARRAY:
        before = 1;
        break;
      case MPI_COMBINER_DARRAY:
        before = 3;
        break;
      case MPI_COMBINER_HVECTOR:
      case MPI_COMBINER_HINDEXED_BLOCK:
        counts = 2;
        break;
      case MPI_COMBINER_HINDEXED:
      case MPI_COMBINER_STRUCT:
        counts = 1 + large[0];
        break;
      default:
        break;
    }
    integers.insert(integers.begin() + before, large.begin(), large.begin() + counts);
    addresses.assign(large.begin() + counts, large.end());
  }
};

std::int64_t period_of(MPI_Datatype type) {
  MPI_Count lower = 0;
  MPI_Count period = 0;
  MPI_Type_get_extent_x(type, &lower, &period);
  return period;
}

// `count` copies from `at` on, one every `stride` bytes.
void repeat(Extents& to, const Extents& what, std::int64_t count, std::int64_t at,
            std::int64_t stride) {
  if (what.size() == 1 && what[0].bytes == stride) {
    if (count > 0) append(to, {at + what[0].offset, count * stride});
    return;
  }
  for (std::int64_t i = 0; i < count; ++i)
    for (const Extent& extent : what)
      append(to, {at + i * stride + extent.offset, extent.bytes});
}

Extents repeated(const Extents& what, std::int64_t count, std::int64_t stride) {
  Extents extents;
  repeat(extents, what, count, 0, stride);
  return extents;
}

Extents flatten(MPI_Datatype type);

// Predefined datatypes are contiguous, except pairs whose second member is aligned.
Extents flatten_named(MPI_Datatype type) {
  if (type == MPI_SHORT_INT) {
    struct Pair {
      short value;
      int index;
    };
    return {{0, sizeof(short)}, {offsetof(Pair, index), sizeof(int)}};
  }
  MPI_Count bytes = 0;
  MPI_Type_size_x(type, &bytes);
  if (bytes == 0) return {};
  return {{0, bytes}};
}

Extents flatten_indexed(const Contents& from, const Extents& old, std::int64_t period) {
  const auto& integers = from.integers;
  const auto count = static_cast<std::size_t>(integers[0]);
  const bool in_bytes =
      from.combiner == MPI_COMBINER_HINDEXED || from.combiner == MPI_COMBINER_HINDEXED_BLOCK;
  const bool equal =
      from.combiner == MPI_COMBINER_INDEXED_BLOCK || from.combiner == MPI_COMBINER_HINDEXED_BLOCK;
  Extents extents;
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t place =
        in_bytes ? from.addresses[i] : integers[(equal ? 2 : count + 1) + i] * period;
    repeat(extents, old, integers[equal ? 1 : i + 1], place, period);
  }
  return extents;
}

Extents flatten_struct(const Contents& from) {
  Extents extents;
  for (std::size_t i = 0; i < from.types.size(); ++i)
    repeat(extents, flatten(from.types[i]), from.integers[i + 1], from.addresses[i],
           period_of(from.types[i]));
  return extents;
}

// An array of `old` elements instead of bytes.
Extents of_elements(const Extents& elements, const Extents& old, std::int64_t period) {
  Extents extents;
  for (const Extent& extent : elements)
    repeat(extents, old, extent.bytes / period, extent.offset, period);
  return extents;
}

Extents flatten_subarray(const Contents& from, const Extents& old, std::int64_t period) {
  const auto count = static_cast<std::size_t>(from.integers[0]);
  const std::int64_t* sizes = &from.integers[1];
  std::vector<Dimension> dimensions;
  for (std::size_t i = 0; i < count; ++i)
    dimensions.push_back({sizes[i], {{sizes[2 * count + i], sizes[count + i]}}});
  if (from.integers[3 * count + 1] == MPI_ORDER_FORTRAN)
    std::reverse(dimensions.begin(), dimensions.end());
  return of_elements(grid(dimensions, period), old, period);
}

// The share of process `place` of `places` in a distributed dimension.
Dimension distributed(std::int64_t size, int how, std::int64_t argument, std::int64_t places,
                      std::int64_t place) {
  Dimension dimension{size, {}};
  if (how == MPI_DISTRIBUTE_NONE) {
    dimension.ranges.emplace_back(0, size);
    return dimension;
  }
  const bool is_default = argument == MPI_DISTRIBUTE_DFLT_DARG;
  std::int64_t block = is_default ? 1 : argument;
  if (how == MPI_DISTRIBUTE_BLOCK && is_default) block = (size + places - 1) / places;
  for (std::int64_t first = place * block; first < size; first += places * block)
    dimension.ranges.emplace_back(first, std::min(block, size - first));
  return dimension;
}

Extents flatten_darray(const Contents& from, const Extents& old, std::int64_t period) {
  const auto& integers = from.integers;
  std::int64_t places_left = integers[0];
  std::int64_t rank = integers[1];
  const auto count = static_cast<std::size_t>(integers[2]);
  const std::int64_t* sizes = &integers[3];
  std::vector<Dimension> dimensions;
  // Processes are numbered in C order, whatever the order of the array.
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t places = sizes[3 * count + i];
    places_left /= places;
    dimensions.push_back(distributed(sizes[i], static_cast<int>(sizes[count + i]),
                                     sizes[2 * count + i], places, rank / places_left));
    rank %= places_left;
  }
  if (integers[4 * count + 3] == MPI_ORDER_FORTRAN)
    std::reverse(dimensions.begin(), dimensions.end());
  return of_elements(grid(dimensions, period), old, period);
}

Extents flatten(MPI_Datatype type) {
  const Contents from(type);
  // Those of a parameterised Fortran kind are contiguous, too.
  if (from.combiner == MPI_COMBINER_NAMED || from.types.empty()) return flatten_named(type);
  if (from.combiner == MPI_COMBINER_STRUCT) return flatten_struct(from);
  Extents old = flatten(from.types[0]);
  const std::int64_t period = period_of(from.types[0]);
  const auto& integers = from.integers;
  switch (from.combiner) {
    case MPI_COMBINER_DUP:
    case MPI_COMBINER_RESIZED:
      return old;
    case MPI_COMBINER_CONTIGUOUS:
      return repeated(old, integers[0], period);
    case MPI_COMBINER_VECTOR:
      return repeated(repeated(old, integers[1], period), integers[0], integers[2] * period);
    case MPI_COMBINER_HVECTOR:
      return repeated(repeated(old, integers[1], period), integers[0], from.addresses[0]);
    case MPI_COMBINER_INDEXED:
    case MPI_COMBINER_HINDEXED:
    case MPI_COMBINER_INDEXED_BLOCK:
    case MPI_COMBINER_HINDEXED_BLOCK:
      return flatten_indexed(from, old, period);
    case MPI_COMBINER_SUBARRAY:
      return flatten_subarray(from, old, period);
    case MPI_COMBINER_DARRAY:
      return flatten_darray(from, old, period);
    default:
      throw Error(ENOTSUP, "type map: a datatype made in a way that is not known");
  }
}

// By what the MPI library makes of bytes that are numbered: those of each number come out reversed.
int element_bytes_of_named(MPI_Datatype type) {
  // The sizes of long doubles agree by chance, but not their formats.
  if (type == MPI_LONG_DOUBLE || type == MPI_C_LONG_DOUBLE_COMPLEX) return 0;
  if (type == MPI_CXX_LONG_DOUBLE_COMPLEX) return 0;
  constexpr int most = 32;
  int bytes = 0;
  MPI_Type_size(type, &bytes);
  if (bytes == 1) return 1;
  MPI_Aint external_bytes = 0;
  MPI_Pack_external_size("external32", 1, type, &external_bytes);
  if (bytes < 1 || bytes > most || external_bytes != bytes) return 0;
  // MPICH 4.0 takes these for one number.
  const bool is_complex = type == MPI_COMPLEX || type == MPI_DOUBLE_COMPLEX ||
                          Envelope(type).combiner == MPI_COMBINER_F90_COMPLEX;
  if (is_complex) return bytes / 2;
  unsigned char numbered[2 * most];  // members of pairs may have a gap between them
  unsigned char packed[most] = {};
  for (int i = 0; i < 2 * most; ++i)
    numbered[i] = static_cast<unsigned char>(i);
  MPI_Aint end = 0;
  MPI_Pack_external("external32", numbered, 1, type, packed, most, &end);
  const int element = packed[0] + 1;
  for (int i = 0; i < bytes; ++i)
    if (packed[i] != i / element * element + element - 1 - i % element) return 0;
  return element;
}

}  // namespace

int element_bytes(MPI_Datatype type) {
  const Contents from(type);
  if (from.combiner == MPI_COMBINER_NAMED || from.types.empty())
    return element_bytes_of_named(type);
  const int bytes = element_bytes(from.types[0]);
  const auto has_others = [&](MPI_Datatype part) { return element_bytes(part) != bytes; };
  return std::any_of(from.types.begin() + 1, from.types.end(), has_others) ? 0 : bytes;
}

bool is_named(MPI_Datatype type) {
  return Envelope(type).combiner == MPI_COMBINER_NAMED;
}

TypeMap typemap_of(MPI_Datatype datatype) {
  const std::int64_t period = period_of(datatype);
  if (period < 0) throw Error(ENOTSUP, "type map: a datatype that goes backwards");
  return TypeMap::list(flatten(datatype), period);
}

}  // namespace ferry::collective
