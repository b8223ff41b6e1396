// Type maps of MPI datatypes, compared with MPI's own packing.
#include "collective/datatype.hpp"

#include "collective/memory.hpp"
#include "collective/mpi_reference.hpp"
#include "collective/world.hpp"

namespace ferry::collective {
namespace {

using namespace test;

// Frees the datatypes of a test at its end.
class Types {
 public:
  ~Types() {
    for (MPI_Datatype& type : made_)
      MPI_Type_free(&type);
  }
  MPI_Datatype keep(MPI_Datatype type) {
    MPI_Type_commit(&type);
    made_.push_back(type);
    return type;
  }

 private:
  std::vector<MPI_Datatype> made_;
};

void expect_same_packing(MPI_Datatype type, int count) {
  const TypeMap map = typemap_of(type);
  MPI_Aint lower = 0;
  MPI_Aint extent = 0;
  MPI_Type_get_true_extent(type, &lower, &extent);
  if (map.data_bytes() == 0) lower = extent = 0;  // which MPI does not state
  int bytes = 0;
  MPI_Pack_size(count, type, MPI_COMM_SELF, &bytes);
  const std::int64_t before = lower < 0 ? -lower : 0;
  const std::int64_t behind = lower + extent + count * map.period_bytes();
  const std::string memory = pattern(static_cast<std::size_t>(before + behind + 64), 7);
  std::string wanted(static_cast<std::size_t>(bytes), '\0');
  int packed = 0;
  MPI_Pack(memory.data() + before, count, type, wanted.data(), bytes, &packed, MPI_COMM_SELF);
  wanted.resize(static_cast<std::size_t>(packed));
  ASSERT_EQ(count * map.data_bytes(), packed);
  std::string got(wanted.size(), '\0');
  Memory(memory.data() + before, map).pack(0, packed, bytes_of(got).data());
  EXPECT_TRUE(same_bytes(got, wanted));
}

TEST(Datatype, Predefined) {
  for (const MPI_Datatype type : {MPI_BYTE, MPI_CHAR, MPI_INT, MPI_DOUBLE, MPI_INT64_T,
                                  MPI_LONG_DOUBLE, MPI_DOUBLE_INT, MPI_SHORT_INT, MPI_2INT})
    expect_same_packing(type, 3);
}

TEST(Datatype, Struct) {
  Types types;
  const int lengths[] = {1, 3, 2};
  const MPI_Aint places[] = {0, 8, 40};
  const MPI_Datatype members[] = {MPI_INT, MPI_DOUBLE, MPI_CHAR};
  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Type_create_struct(3, lengths, places, members, &type);
  expect_same_packing(types.keep(type), 4);
}

TEST(Datatype, SubarraysInBothOrders) {
  Types types;
  const int sizes[] = {5, 6, 7};
  const int subsizes[] = {2, 3, 4};
  const int starts[] = {1, 2, 3};
  for (const int order : {MPI_ORDER_C, MPI_ORDER_FORTRAN}) {
    MPI_Datatype type = MPI_DATATYPE_NULL;
    MPI_Type_create_subarray(3, sizes, subsizes, starts, order, MPI_INT, &type);
    expect_same_packing(types.keep(type), 2);
    EXPECT_TRUE(typemap_of(type).is_file_view());
  }
}

TEST(Datatype, ArraysOfElementsWithoutAnExtent) {
  Types types;
  const int sizes[] = {3, 4};
  const int subsizes[] = {2, 3};
  const int starts[] = {1, 1};
  MPI_Datatype none = MPI_DATATYPE_NULL;
  MPI_Type_contiguous(0, MPI_INT, &none);
  MPI_Datatype one_place = MPI_DATATYPE_NULL;
  MPI_Type_create_resized(MPI_INT, 0, 0, &one_place);
  for (const MPI_Datatype element : {types.keep(none), types.keep(one_place)}) {
    MPI_Datatype type = MPI_DATATYPE_NULL;
    MPI_Type_create_subarray(2, sizes, subsizes, starts, MPI_ORDER_C, element, &type);
    expect_same_packing(types.keep(type), 1);
  }
}

TEST(Datatype, DistributedArrays) {
  const int sizes[] = {9, 8, 5};
  const int how[] = {MPI_DISTRIBUTE_BLOCK, MPI_DISTRIBUTE_CYCLIC, MPI_DISTRIBUTE_NONE};
  const int arguments[] = {MPI_DISTRIBUTE_DFLT_DARG, 2, MPI_DISTRIBUTE_DFLT_DARG};
  const int grid[] = {2, 3, 1};
  for (const int order : {MPI_ORDER_C, MPI_ORDER_FORTRAN}) {
    for (int place = 0; place < 6; ++place) {
      Types types;
      MPI_Datatype type = MPI_DATATYPE_NULL;
      MPI_Type_create_darray(6, place, 3, sizes, how, arguments, grid, order, MPI_INT, &type);
      expect_same_packing(types.keep(type), 2);
    }
  }
}

// From one copy to the next, in a file whose numbers have the sizes of those in memory.
std::int64_t period_in_file(MPI_Datatype type) {
  const auto size_of = [](MPI_Datatype named) {
    int bytes = 0;
    MPI_Type_size(named, &bytes);
    return std::int64_t{bytes};
  };
  return typemap_in_file(type, size_of).period_bytes();
}

// MPI's markers displace other bounds. (In memory MPICH 4.0 has no such rule.)
TEST(Datatype, ExplicitBoundsInAFile) {
  Types types;
  const auto made = [&](auto make, auto... arguments) {
    MPI_Datatype type = MPI_DATATYPE_NULL;
    make(arguments..., &type);
    return types.keep(type);
  };
  // `member` at `at`, listed between ints at `other` and behind it.
  const auto between_ints = [&](MPI_Aint other, MPI_Datatype member, MPI_Aint at) {
    const int lengths[] = {1, 1, 1};
    const MPI_Aint places[] = {other, at, other + 4};
    const MPI_Datatype members[] = {MPI_INT, member, MPI_INT};
    return made(MPI_Type_create_struct, 3, lengths, places, members);
  };
  const int size = 10;
  const int subsize = 2;
  const int start = 3;
  const int block = MPI_DISTRIBUTE_BLOCK;
  const int no_argument = MPI_DISTRIBUTE_DFLT_DARG;
  const int places = 5;
  const MPI_Datatype padded = made(MPI_Type_create_resized, MPI_INT, 0, 16);
  const MPI_Datatype part =
      made(MPI_Type_create_subarray, 1, &size, &subsize, &start, MPI_ORDER_C, MPI_INT);
  const MPI_Datatype share = made(MPI_Type_create_darray, places, 1, 1, &size, &block, &no_argument,
                                  &places, MPI_ORDER_C, MPI_INT);
  const MPI_Datatype none = made(MPI_Type_contiguous, 0, MPI_INT);
  const MPI_Datatype no_place = made(MPI_Type_create_resized, none, 0, 12);
  const MPI_Datatype before = between_ints(0, padded, 8);
  EXPECT_EQ(period_in_file(before), 16);
  EXPECT_EQ(period_in_file(between_ints(40, padded, 8)), 16);
  EXPECT_EQ(period_in_file(between_ints(0, before, 8)), 16);
  EXPECT_EQ(period_in_file(made(MPI_Type_contiguous, 3, before)), 48);
  EXPECT_EQ(period_in_file(between_ints(400, made(MPI_Type_vector, 2, 1, 3, padded), 0)), 64);
  EXPECT_EQ(period_in_file(between_ints(400, made(MPI_Type_dup, padded), 0)), 16);
  EXPECT_EQ(period_in_file(made(MPI_Type_create_resized, before, 4, 30)), 30);
  EXPECT_EQ(period_in_file(between_ints(0, part, 8)), 40);
  EXPECT_EQ(period_in_file(between_ints(100, share, 8)), 40);
  EXPECT_EQ(period_in_file(between_ints(0, no_place, 8)), 12);
  // Nothing has no bounds.
  EXPECT_EQ(period_in_file(between_ints(0, none, 100)), 8);
  EXPECT_EQ(period_in_file(made(MPI_Type_create_hvector, 3, 1, MPI_Aint{50}, none)), 0);
}

// Something made of `old`.
MPI_Datatype random_step(Random& random, MPI_Datatype old) {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  const auto small = [&] { return static_cast<int>(random.between(1, 4)); };
  const int count = small();
  std::vector<int> lengths;
  std::vector<int> places;
  std::vector<MPI_Aint> addresses;
  int at = 0;
  for (int i = 0; i < count; ++i) {
    lengths.push_back(small() - 1);
    places.push_back(at);
    addresses.push_back(at * 50);
    at += small() + 4;
  }
  switch (random.below(8)) {
    case 0:
      MPI_Type_contiguous(count, old, &type);
      break;
    case 1:
      MPI_Type_vector(count, small(), small() + 3, old, &type);
      break;
    case 2:
      MPI_Type_create_hvector(count, small(), small() * 300, old, &type);
      break;
    case 3:
      MPI_Type_indexed(count, lengths.data(), places.data(), old, &type);
      break;
    case 4:
      MPI_Type_create_hindexed(count, lengths.data(), addresses.data(), old, &type);
      break;
    case 5:
      MPI_Type_create_indexed_block(count, small(), places.data(), old, &type);
      break;
    case 6: {
      MPI_Aint lower = 0;
      MPI_Aint extent = 0;
      MPI_Type_get_extent(old, &lower, &extent);
      MPI_Type_create_resized(old, 0, extent + small(), &type);
      break;
    }
    default:
      MPI_Type_dup(old, &type);
  }
  return type;
}

TEST(Datatype, RandomNestings) {
  Random random;
  const std::uint64_t rounds = scaled(200);
  for (std::uint64_t i = 0; i < rounds && !HasFailure(); ++i) {
    Types types;
    MPI_Datatype type = random.pick(std::vector<MPI_Datatype>{MPI_CHAR, MPI_INT, MPI_DOUBLE});
    const std::uint64_t depth = random.between(1, 3);
    for (std::uint64_t d = 0; d < depth; ++d)
      type = types.keep(random_step(random, type));
    expect_same_packing(type, static_cast<int>(random.between(1, 3)));
  }
}

// A file view by an MPI datatype is that of MPI-IO.
TEST(Datatype, ViewsAreThoseOfMpiIo) {
  const SharedDirectory directory;
  Types types;
  const int n = ranks();
  const int sizes[] = {6, 4 * n, 3};
  const int subsizes[] = {6, 4, 2};
  const std::string data = pattern(6 * 4 * 2 * sizeof(int), static_cast<std::uint64_t>(rank()));
  const auto type_of = [&](int rank) {
    const int starts[] = {0, 4 * rank, 1};
    MPI_Datatype type = MPI_DATATYPE_NULL;
    MPI_Type_create_subarray(3, sizes, subsizes, starts, MPI_ORDER_C, MPI_INT, &type);
    return types.keep(type);
  };
  File file(MPI_COMM_WORLD, directory / "ours", O_CREAT | O_RDWR);
  file.set_view(16, typemap_of(type_of(rank())));
  file.write_all(bytes_of(data));
  file.write_all(bytes_of(data));
  file.close();
  if (rank() != 0) return;
  for (int r = 0; r < n; ++r) {
    const std::string twice = pattern(data.size(), static_cast<std::uint64_t>(r)) +
                              pattern(data.size(), static_cast<std::uint64_t>(r));
    write_by_mpi(directory / "theirs", 16, type_of(r), 0, twice.data(), MPI_BYTE,
                 static_cast<int>(twice.size()));
  }
  EXPECT_TRUE(same_bytes(read_file(directory / "ours"), read_file(directory / "theirs")));
}

}  // namespace
}  // namespace ferry::collective
