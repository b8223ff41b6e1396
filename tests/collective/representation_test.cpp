// Views with another byte order: files must equal the MPI library's "external32", and each element
// must be reversed, wherever windows and extents cut elements.
#include "collective/mpi_reference.hpp"
#include "collective/type_maps.hpp"
#include "collective/world.hpp"

namespace ferry::collective::representation_test {
namespace {

using namespace test;

constexpr Method methods[] = {Method::independent, Method::serial, Method::aggregate,
                              Method::mpiio};

std::string reversed(std::string data, std::size_t element_bytes) {
  for (std::size_t at = 0; at < data.size(); at += element_bytes)
    std::reverse(data.begin() + static_cast<std::ptrdiff_t>(at),
                 data.begin() + static_cast<std::ptrdiff_t>(at + element_bytes));
  return data;
}

// Windows of odd sizes, which cut elements. The hints are for method mpiio.
Options odd_options(Method method, Random& random, MPI_Info hints) {
  Options options = options_of(method, static_cast<int>(random.below(4)),
                               static_cast<std::int64_t>(random.between(1, 3000)));
  options.hints = hints;
  options.alignment_bytes = static_cast<std::int64_t>(random.between(1, 700));
  return options;
}

// Reads or writes by the library, as "external32"; `count` elements through a view of blocks.
void transfer_by_mpi(bool writes, const std::string& path, MPI_Datatype element, int blocks,
                     int block, int stride, int first, std::string& data) {
  int size = 0;
  MPI_Type_size(element, &size);
  MPI_Datatype view = MPI_DATATYPE_NULL;
  MPI_Type_vector(blocks, block, stride, element, &view);
  MPI_Type_commit(&view);
  MPI_File file = MPI_FILE_NULL;
  const NoSieving hints;
  require_mpi(
      MPI_File_open(MPI_COMM_SELF, path.c_str(), MPI_MODE_CREATE | MPI_MODE_RDWR, hints, &file));
  require_mpi(MPI_File_set_view(file, first * size, element, view, "external32", hints));
  require_mpi(
      writes ? MPI_File_write_at(file, 0, data.data(), blocks * block, element, MPI_STATUS_IGNORE)
             : MPI_File_read_at(file, 0, data.data(), blocks * block, element, MPI_STATUS_IGNORE));
  require_mpi(MPI_File_close(&file));
  MPI_Type_free(&view);
}

TEST(Representation, IsTheExternal32OfTheMpiLibrary) {
  struct Kind {
    MPI_Datatype type;
    int bytes;
  };
  Random random(1234);
  const NoSieving hints;
  for (const auto& [type, size] :
       {Kind{MPI_SHORT, 2}, {MPI_INT, 4}, {MPI_FLOAT, 4}, {MPI_DOUBLE, 8}, {MPI_LONG_LONG, 8}}) {
    const int blocks = 50;
    const int block = 7;
    const int stride = block * ranks();
    const auto bytes = static_cast<std::size_t>(blocks * block * size);
    const TypeMap view = TypeMap::strided(blocks, block * size, stride * size);
    for (const Method method : methods) {
      const SharedDirectory directory;
      const auto data_of = [&](int of) {
        return pattern(bytes, static_cast<std::uint64_t>(of + 1));
      };
      {
        File file(MPI_COMM_WORLD, directory / "ours", O_CREAT | O_RDWR,
                  odd_options(method, random, hints));
        file.set_view(rank() * block * size, view, {ByteOrder::big, size});
        file.write_all(bytes_of(data_of(rank())));
        file.close();
      }
      if (rank() == 0) {
        for (int r = 0; r < ranks(); ++r) {
          std::string data = data_of(r);
          transfer_by_mpi(true, directory / "theirs", type, blocks, block, stride, r * block, data);
          std::string read(bytes, '\0');
          transfer_by_mpi(false, directory / "ours", type, blocks, block, stride, r * block, read);
          EXPECT_TRUE(same_bytes(read, data)) << name_of(method) << ' ' << size;
        }
        EXPECT_TRUE(same_bytes(read_file(directory / "ours"), read_file(directory / "theirs")))
            << name_of(method) << ' ' << size;
      }
      barrier();
      File file(MPI_COMM_WORLD, directory / "theirs", O_RDONLY, odd_options(method, random, hints));
      file.set_view(rank() * block * size, view, {ByteOrder::big, size});
      std::string read(bytes, '\0');
      EXPECT_EQ(file.read_all(bytes_of(read)), static_cast<std::int64_t>(bytes));
      EXPECT_TRUE(same_bytes(read, data_of(rank()))) << name_of(method) << ' ' << size;
      file.close();
    }
  }
}

// Any views and memories of bytes, also such that cut elements: the stream is what is reversed.
TEST(Representation, ReversesTheElementsOfTheStream) {
  Random random(99);
  const NoSieving hints;
  for (std::uint64_t round = 0; round < scaled(8); ++round) {
    const auto element = std::int64_t{1} << random.between(1, 4);
    std::vector<FlatMap> views = random_partition(random, static_cast<std::size_t>(ranks()));
    const FlatMap memory = random_memory(random);
    const auto period = static_cast<std::int64_t>(memory.bytes.size());
    const std::int64_t count = element * static_cast<std::int64_t>(random.between(1, 12));
    const auto offset = element * static_cast<std::int64_t>(random.below(50));
    const FlatMap& view = views[static_cast<std::size_t>(rank())];
    const bool takes_part = !view.bytes.empty();
    for (const Method method : methods) {
      const Options options = odd_options(method, random, hints);
      const SharedDirectory directory;
      const std::string mine =
          pattern(static_cast<std::size_t>(count * memory.period_bytes + 1), random.bits() + 1);
      std::string stream;
      for (std::int64_t at = 0; at < count * period; ++at)
        stream += mine[static_cast<std::size_t>(memory.position_of(at))];
      const std::string foreign = reversed(stream, static_cast<std::size_t>(element));
      for (const char* name : {"converted", "expected"}) {
        const bool converts = name[0] == 'c';
        File file(MPI_COMM_WORLD, directory / name, O_CREAT | O_RDWR, options);
        const Representation big{converts ? ByteOrder::big : ByteOrder::native,
                                 static_cast<int>(element)};
        // The MPI library writes stray bytes into gaps behind the end of a file.
        file.resize(std::int64_t{8} << 20);
        file.set_view(3, view.map(), big);
        if (converts) {
          file.write_at_all(offset, mine.data(), memory.map(), takes_part ? count : 0);
          std::string read(mine.size(), '.');
          std::string wanted = read;
          for (std::int64_t at = 0; takes_part && at < count * period; ++at) {
            const auto to = static_cast<std::size_t>(memory.position_of(at));
            wanted[to] = mine[to];
          }
          file.read_at_all(offset, read.data(), memory.map(), takes_part ? count : 0);
          EXPECT_TRUE(same_bytes(read, wanted)) << name_of(method) << ' ' << element;
        } else {
          file.write_at_all(offset, bytes_of(takes_part ? foreign : std::string()));
        }
        file.close();
      }
      if (rank() == 0) {
        EXPECT_TRUE(
            same_bytes(read_file(directory / "converted"), read_file(directory / "expected")))
            << name_of(method) << ' ' << element;
      }
    }
  }
}

TEST(Representation, IndependentTransfersThroughSeveralBuffers) {
  const SharedDirectory directory;
  const std::string mine = pattern(std::size_t{9} << 20, static_cast<std::uint64_t>(rank()) + 7);
  const auto bytes = static_cast<std::int64_t>(mine.size());
  File file(MPI_COMM_WORLD, directory / "file", O_CREAT | O_RDWR);
  file.set_view(rank() * bytes, TypeMap(), {ByteOrder::big, 8});
  EXPECT_EQ(file.write_at(0, bytes_of(mine)), bytes);
  std::string read(mine.size(), '\0');
  EXPECT_EQ(file.read_at(0, bytes_of(read)), bytes);
  EXPECT_TRUE(same_bytes(read, mine));
  file.set_view(rank() * bytes, TypeMap());
  file.read_at(0, bytes_of(read));
  EXPECT_TRUE(same_bytes(read, reversed(mine, 8)));
  file.close();
}

TEST(Representation, RefusesPartsOfElementsAndDifferentOnes) {
  const SharedDirectory directory;
  File file(MPI_COMM_WORLD, directory / "file", O_CREAT | O_RDWR);
  for (const int size : {0, 3, 32, -8})
    EXPECT_EQ(error_of([&] { file.set_view(0, TypeMap(), {ByteOrder::big, size}); }), EINVAL);
  if (ranks() > 1) {
    EXPECT_EQ(error_of([&] {
                file.set_view(0, TypeMap(), {ByteOrder::big, rank() == 0 ? 4 : 8});
              }),
              EINVAL);
  }
  file.set_view(0, TypeMap(), {ByteOrder::big, 8});
  std::string data(16, 'x');
  EXPECT_EQ(error_of([&] { file.write_at_all(4, bytes_of(data)); }), EINVAL);
  EXPECT_EQ(error_of([&] { file.write_at_all(0, bytes_of(data).subspan(1)); }), EINVAL);
  EXPECT_EQ(error_of([&] { file.read_at(4, bytes_of(data)); }), EINVAL);
  file.close();
}

}  // namespace
}  // namespace ferry::collective::representation_test
