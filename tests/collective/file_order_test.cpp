// Views whose pieces do not ascend in the file: their copies interleave, or they overlap.
#include <string>
#include <vector>

#include "collective/type_maps.hpp"
#include "collective/world.hpp"

namespace ferry::collective::file_order_test {
namespace {

using namespace test;

constexpr Method methods[] = {Method::independent, Method::serial, Method::aggregate,
                              Method::automatic};

// What one rank moves by one of the ways; every rank draws the same.
struct OddView {
  OddView(Random& random, bool may_overlap) {
    if (may_overlap) {
      std::vector<std::int64_t> begins;
      for (std::uint64_t i = random.between(1, 20); i > 0; --i)
        begins.push_back(static_cast<std::int64_t>(random.below(300)));
      std::sort(begins.begin(), begins.end());
      for (const std::int64_t begin : begins)
        for (std::uint64_t i = 0, length = random.between(1, 40); i < length; ++i)
          view.bytes.push_back(begin + static_cast<std::int64_t>(i));
      view.period_bytes = 400;
    } else {
      view = random_flat_map(random);
      if (view.bytes.empty()) view.bytes.push_back(3);
      view.bytes.resize(std::min<std::size_t>(view.bytes.size(), 1000));
    }
    view.period_bytes =
        static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(view.period_bytes) + 1));
    if (random.one_in(3)) element_bytes = 4;
    const auto data = view.bytes.size();
    offset = static_cast<std::int64_t>(random.below(3 * data));
    offset -= offset % element_bytes;
    bytes = static_cast<std::int64_t>(random.below(4 * data));
    bytes -= bytes % element_bytes;
  }

  // As the file has them, in the order of the stream.
  std::vector<std::int64_t> in_stream() const {
    std::vector<std::int64_t> places;
    for (std::int64_t i = 0; i < bytes; ++i)
      places.push_back(view.position_of(offset + i));
    return places;
  }

  FlatMap view;
  int element_bytes = 1;
  std::int64_t offset = 0;
  std::int64_t bytes = 0;
};

// What every rank moves in one call, each in a part of the file or each byte beside the others'.
struct OddCall {
  OddCall(Random& random, bool may_overlap) {
    is_beside = random.one_in(2);
    displacement = static_cast<std::int64_t>(random.below(500));
    for (int i = 0; i < ranks(); ++i)
      shares.emplace_back(random, may_overlap);
    // The representation is the same on all ranks.
    for (OddView& share : shares) {
      share.element_bytes = shares[0].element_bytes;
      share.offset -= share.offset % share.element_bytes;
      share.bytes -= share.bytes % share.element_bytes;
      if (!is_beside) continue;
      std::sort(share.view.bytes.begin(), share.view.bytes.end());  // of single bytes then
      for (std::int64_t& at : share.view.bytes)
        at *= ranks();
      share.view.period_bytes *= ranks();
    }
  }

  std::int64_t begin_of(int rank) const {
    return displacement + (is_beside ? rank : rank * 400'000);
  }
  // Behind all of it, or somewhere in what a rank reads.
  std::size_t end_of_file(Random& random) const {
    const int of = static_cast<int>(random.below(static_cast<std::uint64_t>(ranks())));
    const auto places = shares[static_cast<std::size_t>(of)].in_stream();
    if (places.empty() || random.one_in(3)) return 3'000'000;
    return static_cast<std::size_t>(begin_of(of) + random.pick(places));
  }
  const OddView& mine() const { return shares[static_cast<std::size_t>(rank())]; }
  void set_view(File& file) const {
    const Representation representation{mine().element_bytes > 1 ? foreign : ByteOrder::native,
                                        mine().element_bytes};
    file.set_view(begin_of(rank()), mine().view.map(), representation);
  }

  static constexpr ByteOrder foreign =
      is_foreign(ByteOrder::big) ? ByteOrder::big : ByteOrder::little;
  bool is_beside = false;
  std::int64_t displacement = 0;
  std::vector<OddView> shares;
};

class FileOrders : public testing::TestWithParam<Method> {};

// By all ranks, by all without waiting, or by each alone.
enum class Way : std::uint8_t { all, started, alone, count };

TEST_P(FileOrders, BytesGoWhereTheViewSays) {
  Random random;
  const SharedDirectory directory;
  const std::uint64_t rounds = scaled(10);
  for (std::uint64_t i = 0; i < rounds; ++i) {
    const OddCall call(random, false);
    const auto way = static_cast<Way>(random.below(static_cast<std::uint64_t>(Way::count)));
    std::string wanted = pattern(random.below(30'000), random.bits());
    const std::uint64_t seed = random.bits();
    if (rank() == 0) write_file(directory / "file", wanted);
    barrier();
    File file(MPI_COMM_WORLD, directory / "file", O_RDWR, options_of(GetParam(), 0, 4096));
    call.set_view(file);
    const auto memory_of = [&](int of) {
      const OddView& share = call.shares[static_cast<std::size_t>(of)];
      return pattern(static_cast<std::size_t>(share.bytes), seed + static_cast<std::uint64_t>(of));
    };
    const std::string mine = memory_of(rank());
    const std::int64_t offset = call.mine().offset;
    std::int64_t moved = 0;
    if (way == Way::all) moved = file.write_at_all(offset, bytes_of(mine));
    if (way == Way::started) moved = file.iwrite_at_all(offset, bytes_of(mine)).wait();
    if (way == Way::alone) moved = file.write_at(offset, bytes_of(mine));
    EXPECT_EQ(moved, call.mine().bytes);
    file.close();
    for (int of = 0; of < ranks(); ++of) {
      const std::string memory = memory_of(of);
      const OddView& share = call.shares[static_cast<std::size_t>(of)];
      const auto places = share.in_stream();
      for (std::size_t at = 0; at < places.size(); ++at) {
        const auto place = static_cast<std::size_t>(call.begin_of(of) + places[at]);
        if (place >= wanted.size()) wanted.resize(place + 1);
        wanted[place] = memory[at ^ static_cast<std::size_t>(share.element_bytes - 1)];
      }
    }
    EXPECT_TRUE(same_bytes(read_file(directory / "file"), wanted)) << "round " << i;
    barrier();
  }
}

// Up to the first byte of the stream behind the end of the file.
TEST_P(FileOrders, ReadsMayOverlap) {
  Random random;
  const SharedDirectory directory;
  const std::uint64_t rounds = scaled(10);
  for (std::uint64_t i = 0; i < rounds; ++i) {
    const OddCall call(random, random.one_in(2));
    const auto way = static_cast<Way>(random.below(static_cast<std::uint64_t>(Way::count)));
    const std::string contents = pattern(call.end_of_file(random), random.bits());
    if (rank() == 0) write_file(directory / "file", contents);
    barrier();
    File file(MPI_COMM_WORLD, directory / "file", O_RDONLY, options_of(GetParam(), 0, 4096));
    call.set_view(file);
    const OddView& share = call.mine();
    std::string got(static_cast<std::size_t>(share.bytes), '?');
    std::int64_t moved = 0;
    if (way == Way::all) moved = file.read_at_all(share.offset, bytes_of(got));
    if (way == Way::started) moved = file.iread_at_all(share.offset, bytes_of(got)).wait();
    if (way == Way::alone) moved = file.read_at(share.offset, bytes_of(got));
    const auto places = share.in_stream();
    std::int64_t there = 0;
    while (there < share.bytes &&
           call.begin_of(rank()) + places[static_cast<std::size_t>(there)] < std::ssize(contents))
      ++there;
    EXPECT_EQ(moved, there) << "round " << i;
    // An element that is there in part has undefined contents.
    there -= there % share.element_bytes;
    std::string wanted(static_cast<std::size_t>(there), '?');
    for (std::size_t at = 0; at < wanted.size(); ++at) {
      const auto place = static_cast<std::size_t>(call.begin_of(rank()) + places[at]);
      wanted[at ^ static_cast<std::size_t>(share.element_bytes - 1)] = contents[place];
    }
    EXPECT_TRUE(same_bytes(got.substr(0, wanted.size()), wanted)) << "round " << i;
    file.close();
  }
}

INSTANTIATE_TEST_SUITE_P(Methods, FileOrders, testing::ValuesIn(methods),
                         [](const auto& of) { return name_of(of.param); });

TEST(FileOrder, IsNotForWritingWhatOverlapsNorForWhatDescends) {
  const SharedDirectory directory;
  File file(MPI_COMM_WORLD, directory / "file", O_CREAT | O_RDWR);
  const Extent overlapping[] = {{0, 8}, {4, 8}};
  const Extent descending[] = {{8, 4}, {0, 4}};
  const Extent before[] = {{-4, 4}, {0, 4}};
  EXPECT_EQ(error_of([&] { file.set_view(0, TypeMap::list(overlapping)); }), EINVAL);
  file.close();
  File reading(MPI_COMM_WORLD, directory / "file", O_RDONLY);
  reading.set_view(0, TypeMap::list(overlapping));
  EXPECT_EQ(error_of([&] { reading.set_view(0, TypeMap::list(descending)); }), EINVAL);
  EXPECT_EQ(error_of([&] { reading.set_view(0, TypeMap::list(before, 0)); }), EINVAL);
  // Its last byte is behind what offsets can name.
  std::string got(8, '?');
  const Extent far[] = {{0, 4}, {std::int64_t{1} << 62, 4}};
  reading.set_view(0, TypeMap::list(far, 4));
  EXPECT_EQ(error_of([&] { reading.read_at_all(8, bytes_of(got)); }), EOVERFLOW);
  reading.close();
  File by_library(MPI_COMM_WORLD, directory / "file", O_RDONLY, options_of(Method::mpiio));
  EXPECT_EQ(error_of([&] { by_library.set_view(0, TypeMap::list(overlapping)); }), EINVAL);
  by_library.close();
}

}  // namespace
}  // namespace ferry::collective::file_order_test
