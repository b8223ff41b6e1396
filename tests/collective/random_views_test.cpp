// Random views, memories and settings: files must equal those of the MPI library's MPI-IO, written
// rank after rank, and reads must return what was written.
#include "collective/mpi_reference.hpp"
#include "collective/random_case.hpp"
#include "collective/world.hpp"

namespace ferry::collective::random_views_test {
namespace {

using namespace test;

constexpr Method methods[] = {Method::independent, Method::serial, Method::aggregate,
                              Method::automatic};

// Rank 0 writes what all ranks should have written, by the MPI library.
void write_reference(const Case& of, const std::string& path) {
  if (rank() != 0) return;
  for (std::size_t r = 0; r < of.shares.size(); ++r) {
    const Share& share = of.shares[r];
    if (share.count == 0) continue;
    const std::string memory = of.memory_of(r);
    const ByteType view(share.view.map());
    const ByteType memory_type(share.memory.map());
    write_by_mpi(path, of.displacement, view, share.offset, memory.data(), memory_type,
                 static_cast<int>(share.count));
  }
}

void check_write(const Case& of, const SharedDirectory& directory) {
  const std::string path = directory / "written";
  const std::string reference = directory / "reference";
  if (rank() == 0) {
    const std::string before = pattern(of.bytes_before, of.write_seed + 99);
    write_file(path, before);
    write_file(reference, before);
  }
  barrier();
  File file(MPI_COMM_WORLD, path, O_RDWR, of.options);
  file.set_view(of.displacement, of.mine().view.map());
  const std::string memory = of.memory_of(static_cast<std::size_t>(rank()));
  EXPECT_EQ(
      file.write_at_all(of.mine().offset, memory.data(), of.mine().memory.map(), of.mine().count),
      of.mine().bytes());
  file.close();
  write_reference(of, reference);
  if (rank() == 0) {
    EXPECT_TRUE(same_bytes(read_file(path), read_file(reference)));
  }
}

// Reads the file of check_write, which may be shorter than the request.
void check_read(const Case& of, const SharedDirectory& directory) {
  barrier();
  const std::string contents = read_file(directory / "written");
  const Share& share = of.mine();
  // Plainly: byte by byte, up to the end of the file.
  std::string wanted = pattern(static_cast<std::size_t>(share.memory_bytes()), 5);
  std::string got = wanted;
  std::int64_t moved = 0;
  while (moved < share.bytes()) {
    const auto from =
        static_cast<std::size_t>(of.displacement + share.view.position_of(share.offset + moved));
    if (from >= contents.size()) break;
    wanted[static_cast<std::size_t>(share.memory.position_of(moved++))] = contents[from];
  }
  File file(MPI_COMM_WORLD, directory / "written", O_RDONLY, of.options);
  file.set_view(of.displacement, share.view.map());
  EXPECT_EQ(file.read_at_all(share.offset, got.data(), share.memory.map(), share.count), moved);
  EXPECT_TRUE(same_bytes(got, wanted));
  file.close();
}

// The same on all ranks, so that all continue or none.
bool anybody_failed() {
  std::int64_t failed = testing::Test::HasFailure() ? 1 : 0;
  world().maximum(std::span(&failed, 1));
  return failed != 0;
}

class RandomViews : public testing::TestWithParam<Method> {};

TEST_P(RandomViews, WriteWhatMpiWritesAndReadItBack) {
  Random random;
  const SharedDirectory directory;
  const std::uint64_t rounds = scaled(16);
  for (std::uint64_t i = 0; i < rounds && !anybody_failed(); ++i) {
    Case one(random);
    one.options.write_method = GetParam();
    one.options.read_method = GetParam();
    check_write(one, directory);
    check_read(one, directory);
    // What others wrote, and a file that ends too early.
    Case other(random);
    other.options.write_method = other.options.read_method = GetParam();
    check_read(other, directory);
  }
}

INSTANTIATE_TEST_SUITE_P(Methods, RandomViews, testing::ValuesIn(methods),
                         [](const auto& of) { return name_of(of.param); });

// One transfer of contiguous data: that of each rank, in order, from few bytes to many.
struct ContiguousCase {
  explicit ContiguousCase(Random& random) {
    const auto count = static_cast<std::uint64_t>(ranks());
    if (random.one_in(5)) refused = static_cast<int>(random.below(count));
    std::int64_t end = 0;
    for (int i = 0; i < ranks(); ++i) {
      const std::uint64_t bytes[] = {0,      1,      random.between(1, 65'536),
                                     65'536, 65'537, random.between(65'537, 200'000)};
      offsets.push_back(end + static_cast<std::int64_t>(random.below(1000)));
      data.push_back(pattern(random.pick(bytes), random.bits()));
      end = offsets.back() + std::ssize(data.back());
    }
  }
  std::size_t offset(int of) const {
    return static_cast<std::size_t>(offsets[static_cast<std::size_t>(of)]);
  }
  std::int64_t my_offset() const {
    return rank() == refused ? -1 : offsets[static_cast<std::size_t>(rank())];
  }
  const std::string& mine() const { return data[static_cast<std::size_t>(rank())]; }
  int error() const { return refused >= 0 ? EINVAL : 0; }

  std::vector<std::int64_t> offsets;
  std::vector<std::string> data;
  int refused = -1;  // this rank asks wrongly
};

void put(std::string& contents, const ContiguousCase& of) {
  for (int i = 0; i < ranks(); ++i) {
    const std::string& data = of.data[static_cast<std::size_t>(i)];
    if (data.empty()) continue;
    contents.resize(std::max(contents.size(), of.offset(i) + data.size()));
    data.copy(contents.data() + of.offset(i), data.size());
  }
}

// Ranks that have the file open read before they meet, and some write then, too.
TEST(ContiguousData, IsRightWhoeverGoesFirst) {
  Random random;
  const SharedDirectory directory;
  const auto writing_first =
      static_cast<int>(random.below(static_cast<std::uint64_t>(ranks()) + 1));
  Options options;
  options.writes_first = rank() < writing_first;
  File file(MPI_COMM_WORLD, directory / "file", O_CREAT | O_RDWR, options);
  std::string contents;
  const std::uint64_t rounds = scaled(40);
  for (std::uint64_t i = 0; i < rounds && !anybody_failed(); ++i) {
    const ContiguousCase one(random);
    if (random.one_in(2)) {
      EXPECT_EQ(error_of([&] { file.write_at_all(one.my_offset(), bytes_of(one.mine())); }),
                one.error());
      barrier();
      if (one.refused < 0) put(contents, one);
      const std::string found = read_file(directory / "file");
      // What went first may be there although the call failed.
      const bool is_certain = one.refused < 0 || writing_first == 0;
      EXPECT_TRUE(!is_certain || same_bytes(found, contents));
      contents = found;
      barrier();
    } else {
      std::string got(one.mine().size(), '?');
      std::int64_t moved = 0;
      EXPECT_EQ(error_of([&] { moved = file.read_at_all(one.my_offset(), bytes_of(got)); }),
                one.error());
      if (one.refused >= 0) continue;
      const std::size_t from = std::min(one.offset(rank()), contents.size());
      const std::string expected = contents.substr(from, got.size());
      EXPECT_EQ(moved, std::ssize(expected));
      EXPECT_TRUE(same_bytes(got.substr(0, expected.size()), expected));
    }
  }
  file.close();
}

// The library's collective calls wait by spinning, so use only a few.
TEST(MpiIo, WritesAndReadsThroughTheSameViews) {
  Random random;
  const SharedDirectory directory;
  for (int i = 0; i < 2; ++i) {
    Case one(random);
    one.options.write_method = one.options.read_method = Method::mpiio;
    // Behind the end of the file it writes its memory's contents between the pieces.
    one.bytes_before = 1'000'000;
    check_write(one, directory);
    EXPECT_EQ(read_file(directory / "written").size(), one.bytes_before);
    check_read(one, directory);
  }
}

// All ranks write, and read, the same bytes.
TEST(Overlap, OneOfTheWritersWinsEachByte) {
  const SharedDirectory directory;
  constexpr std::size_t bytes = 100'000;
  for (const Method method : methods) {
    File file(MPI_COMM_WORLD, directory / "file", O_CREAT | O_RDWR, options_of(method, 0, 20'000));
    const std::string mine(bytes, static_cast<char>('a' + rank()));
    file.write_at_all(0, bytes_of(mine));
    std::string got(bytes, '?');
    EXPECT_EQ(file.read_at_all(0, bytes_of(got)), static_cast<std::int64_t>(bytes));
    const auto [low, high] = std::minmax_element(got.begin(), got.end());
    EXPECT_GE(*low, 'a');
    EXPECT_LT(*high, 'a' + ranks());
    file.close();
  }
}

}  // namespace
}  // namespace ferry::collective::random_views_test
