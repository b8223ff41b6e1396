// Converts MPI datatypes to type maps.
#include "collective/datatype.hpp"

#include <algorithm>
#include <cerrno>
#include <functional>
#include <utility>

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
      case MPI_COMBINER_RESIZED:
        counts = 0;
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

// Bytes of one predefined datatype, or, where that does not matter, of MPI_DATATYPE_NULL.
struct Piece {
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
  MPI_Datatype type = MPI_DATATYPE_NULL;
};
using Pieces = std::vector<Piece>;

void append(Pieces& pieces, const Piece& piece) {
  Piece* last = pieces.empty() ? nullptr : &pieces.back();
  if (last != nullptr && last->offset + last->bytes == piece.offset && last->type == piece.type) {
    last->bytes += piece.bytes;
  } else {
    pieces.push_back(piece);
  }
}

// What says the bounds of a datatype. Those that are explicit (of resized types and arrays, MPI's
// markers) displace those that follow from its pieces: MPI 4.0, 5.1.6.
enum class Bounds { none, pieces, explicitly };

// What a datatype is made of, in the order of its type map, and its bounds.
struct Shape {
  Pieces pieces;
  std::int64_t lower = 0;
  std::int64_t upper = 0;
  Bounds bounds = Bounds::none;

  std::int64_t period() const { return upper - lower; }
  void bound(std::int64_t from, std::int64_t to, Bounds by) {
    if (by < bounds) return;
    lower = by == bounds ? std::min(lower, from) : from;
    upper = by == bounds ? std::max(upper, to) : to;
    bounds = by;
  }
};

// How predefined datatypes lie. In memory the library knows the bounds of all others; in a file
// these follow from what is in them, without padding.
struct Layout {
  std::function<Pieces(MPI_Datatype)> named;
  bool in_file = false;
};

// `count` copies from `at` on, one every `stride` bytes.
void repeat(Shape& to, const Shape& what, std::int64_t count, std::int64_t at,
            std::int64_t stride) {
  if (count <= 0 || what.bounds == Bounds::none) return;
  const std::int64_t last = at + (count - 1) * stride;
  to.bound(std::min(at, last) + what.lower, std::max(at, last) + what.upper, what.bounds);
  const Pieces& pieces = what.pieces;
  if (pieces.size() == 1 && pieces[0].bytes == stride) {
    append(to.pieces, {at + pieces[0].offset, count * stride, pieces[0].type});
    return;
  }
  for (std::int64_t i = 0; i < count; ++i)
    for (const Piece& piece : pieces)
      append(to.pieces, {at + i * stride + piece.offset, piece.bytes, piece.type});
}

Shape repeated(const Shape& what, std::int64_t count, std::int64_t stride) {
  Shape shape;
  repeat(shape, what, count, 0, stride);
  return shape;
}

Shape flatten(MPI_Datatype type, const Layout& layout);

// Predefined datatypes are contiguous, except pairs whose second member is aligned.
Pieces bytes_of_named(MPI_Datatype type) {
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

Shape flatten_indexed(const Contents& from, const Shape& old) {
  const auto& integers = from.integers;
  const auto count = static_cast<std::size_t>(integers[0]);
  const bool in_bytes =
      from.combiner == MPI_COMBINER_HINDEXED || from.combiner == MPI_COMBINER_HINDEXED_BLOCK;
  const bool equal =
      from.combiner == MPI_COMBINER_INDEXED_BLOCK || from.combiner == MPI_COMBINER_HINDEXED_BLOCK;
  Shape shape;
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t place =
        in_bytes ? from.addresses[i] : integers[(equal ? 2 : count + 1) + i] * old.period();
    repeat(shape, old, integers[equal ? 1 : i + 1], place, old.period());
  }
  return shape;
}

Shape flatten_struct(const Contents& from, const Layout& layout) {
  Shape shape;
  for (std::size_t i = 0; i < from.types.size(); ++i) {
    const Shape member = flatten(from.types[i], layout);
    repeat(shape, member, from.integers[i + 1], from.addresses[i], member.period());
  }
  return shape;
}

// An array of `old` elements, of which some are listed.
Shape of_elements(const std::vector<Dimension>& dimensions, const Shape& old) {
  Shape shape;
  const std::int64_t period = old.period();
  if (period < 0) throw Error(ENOTSUP, "type map: an array of elements with a negative extent");
  if (period == 0) {  // they lie in one place
    for (const Extent& extent : grid(dimensions, 1))
      repeat(shape, old, extent.bytes, 0, 0);
  } else {
    for (const Extent& extent : grid(dimensions, period))
      repeat(shape, old, extent.bytes / period, extent.offset, period);
  }
  std::int64_t bytes = period;
  for (const Dimension& dimension : dimensions)
    bytes *= dimension.size;
  shape.lower = 0;
  shape.upper = bytes;
  shape.bounds = Bounds::explicitly;
  return shape;
}

Shape flatten_subarray(const Contents& from, const Shape& old) {
  const auto count = static_cast<std::size_t>(from.integers[0]);
  const std::int64_t* sizes = &from.integers[1];
  std::vector<Dimension> dimensions;
  for (std::size_t i = 0; i < count; ++i)
    dimensions.push_back({sizes[i], {{sizes[2 * count + i], sizes[count + i]}}});
  if (from.integers[3 * count + 1] == MPI_ORDER_FORTRAN)
    std::reverse(dimensions.begin(), dimensions.end());
  return of_elements(dimensions, old);
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

Shape flatten_darray(const Contents& from, const Shape& old) {
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
  return of_elements(dimensions, old);
}

Shape flatten_derived(const Contents& from, const Layout& layout) {
  if (from.combiner == MPI_COMBINER_STRUCT) return flatten_struct(from, layout);
  Shape old = flatten(from.types[0], layout);
  const std::int64_t period = old.period();
  const auto& integers = from.integers;
  switch (from.combiner) {
    case MPI_COMBINER_DUP:
      return old;
    case MPI_COMBINER_RESIZED:
      old.lower = from.addresses[0];
      old.upper = old.lower + from.addresses[1];
      old.bounds = Bounds::explicitly;
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
      return flatten_indexed(from, old);
    case MPI_COMBINER_SUBARRAY:
      return flatten_subarray(from, old);
    case MPI_COMBINER_DARRAY:
      return flatten_darray(from, old);
    default:
      throw Error(ENOTSUP, "type map: a datatype made in a way that is not known");
  }
}

Shape flatten(MPI_Datatype type, const Layout& layout) {
  Shape shape;
  const Contents from(type);
  // Those of a parameterised Fortran kind are predefined, too.
  if (from.combiner == MPI_COMBINER_NAMED || from.types.empty()) {
    shape.pieces = layout.named(type);
    for (const Piece& piece : shape.pieces)
      shape.bound(0, piece.offset + piece.bytes, Bounds::pieces);
  } else {
    shape = flatten_derived(from, layout);
  }
  if (layout.in_file) return shape;
  MPI_Count lower = 0;
  MPI_Count period = 0;
  MPI_Type_get_extent_x(type, &lower, &period);
  shape.lower = lower;
  shape.upper = lower + period;
  return shape;
}

TypeMap typemap_with(MPI_Datatype datatype, const Layout& layout) {
  const Shape shape = flatten(datatype, layout);
  if (shape.period() < 0) throw Error(ENOTSUP, "type map: a datatype that goes backwards");
  Extents extents;
  extents.reserve(shape.pieces.size());
  for (const Piece& piece : shape.pieces)
    extents.push_back({piece.offset, piece.bytes});
  return TypeMap::list(extents, shape.period());
}

}  // namespace

bool is_named(MPI_Datatype type) {
  return Envelope(type).combiner == MPI_COMBINER_NAMED;
}

TypeMap typemap_of(MPI_Datatype datatype) {
  return typemap_with(datatype, {bytes_of_named, false});
}

TypeMap typemap_in_file(MPI_Datatype datatype, const SizeInFile& size_of) {
  const auto named = [&](MPI_Datatype type) -> Pieces {
    const std::int64_t bytes = size_of(type);
    return bytes == 0 ? Pieces{} : Pieces{{0, bytes}};
  };
  return typemap_with(datatype, {named, true});
}

std::vector<Items> items_of(MPI_Datatype datatype) {
  const auto period_of = [](MPI_Datatype type) {
    MPI_Count lower = 0;
    MPI_Count period = 0;
    MPI_Type_get_extent_x(type, &lower, &period);
    return std::int64_t{period};
  };
  const auto named = [&](MPI_Datatype type) -> Pieces {
    const std::int64_t bytes = period_of(type);
    return bytes == 0 ? Pieces{} : Pieces{{0, bytes, type}};
  };
  std::vector<Items> items;
  for (const Piece& piece : flatten(datatype, {named, false}).pieces)
    items.push_back({piece.offset, piece.bytes / period_of(piece.type), piece.type});
  return items;
}

}  // namespace ferry::collective
