// Data sieving: few requests for many pieces, without losing others' bytes.
#include <string>
#include <vector>

#include "collective/type_maps.hpp"
#include "collective/world.hpp"

namespace ferry::collective::sieve_test {
namespace {

using namespace test;

constexpr std::int64_t piece_bytes = 512;
constexpr std::int64_t pieces = 600;

Options options_of(Sieving sieving) {
  Options options = test::options_of(Method::independent);
  options.read_sieving = options.write_sieving = sieving;
  return options;
}

std::string of_rank(int of) {
  return pattern(piece_bytes * pieces, static_cast<std::uint64_t>(of));
}

TEST(Sieve, ReadsManyPiecesWithOneRequest) {
  const SharedDirectory directory;
  std::vector<std::string> of_ranks;
  for (int of = 0; of < ranks() + 1; ++of)
    of_ranks.push_back(of_rank(of));
  std::string all;
  for (std::int64_t i = 0; i < pieces; ++i)
    for (const std::string& bytes : of_ranks)
      all.append(bytes, static_cast<std::size_t>(i * piece_bytes), piece_bytes);
  if (rank() == 0) write_file(directory / "file", all);
  barrier();
  for (const Sieving sieving : {Sieving::enabled, Sieving::disabled, Sieving::automatic}) {
    File file(MPI_COMM_WORLD, directory / "file", O_RDONLY, options_of(sieving));
    file.set_view(rank() * piece_bytes,
                  TypeMap::strided(pieces, piece_bytes, piece_bytes * (ranks() + 1)));
    std::string got(piece_bytes * pieces, '?');
    EXPECT_EQ(file.read_at(0, bytes_of(got)), piece_bytes * pieces);
    EXPECT_TRUE(same_bytes(got, of_rank(rank())));
    // 600 pieces that are at most 3 KiB apart lie within one buffer of 4 MiB.
    EXPECT_EQ(file.statistics().counts.storage_requests,
              static_cast<std::uint64_t>(ranks() * (sieving == Sieving::enabled ? 1 : pieces)));
    // Collective calls of method independent, and reads that meet the end of the file.
    std::string more(got.size() + 100, '?');
    file.set_view(rank() * piece_bytes,
                  TypeMap::strided(1, piece_bytes, piece_bytes * (ranks() + 1)));
    EXPECT_EQ(file.read_at_all(0, bytes_of(more)), piece_bytes * pieces);
    EXPECT_TRUE(same_bytes(more.substr(0, got.size()), of_rank(rank())));
    file.close();
  }
}

// Ranks repeatedly write between each other's pieces at the same time: without a lock one would
// write back stale data.
TEST(Sieve, WritesLoseNothingOfOthers) {
  const SharedDirectory directory;
  Options options = options_of(Sieving::enabled);
  const std::string before = pattern(piece_bytes * pieces, 99);
  for (std::uint64_t again = 0; again < scaled(5); ++again) {
    if (rank() == 0) write_file(directory / "file", before);
    barrier();
    File file(MPI_COMM_WORLD, directory / "file", O_RDWR, options);
    // The last piece of each period belongs to no rank.
    file.set_view(rank() * 10, TypeMap::strided(1, 10, 10 * (ranks() + 1)));
    const std::string mine(20'000, static_cast<char>('a' + rank()));
    EXPECT_EQ(file.write_at(0, bytes_of(mine)), 20'000);
    EXPECT_LT(file.statistics().counts.storage_requests, static_cast<std::uint64_t>(20 * ranks()));
    file.close();
    const std::string got = read_file(directory / "file");
    std::string wanted = before;
    wanted.resize(std::max<std::size_t>(
        wanted.size(), static_cast<std::size_t>(1999 * 10 * (ranks() + 1) + ranks() * 10)));
    for (std::size_t i = 0; i < 2000; ++i)
      for (int of = 0; of < ranks(); ++of)
        wanted.replace(
            i * 10 * (static_cast<std::size_t>(ranks()) + 1) + static_cast<std::size_t>(of) * 10,
            10, 10, static_cast<char>('a' + of));
    EXPECT_TRUE(same_bytes(got, wanted));
    barrier();
  }
}

TEST(Sieve, RandomViewsAndByteOrders) {
  Random random;
  const SharedDirectory directory;
  for (std::uint64_t again = 0; again < scaled(8); ++again) {
    const auto views = random_partition(random, static_cast<std::size_t>(ranks()));
    const FlatMap& mine = views[static_cast<std::size_t>(rank())];
    const auto bytes = static_cast<std::int64_t>(random.between(1, 5000)) * 8;
    const auto seed = random.bits();
    const std::string buffer = std::to_string(random.between(1, 9000));
    const Hints hints{{"ind_rd_buffer_size", buffer}, {"ind_wr_buffer_size", buffer}};
    const Representation order{random.one_in(2) ? ByteOrder::big : ByteOrder::little, 8};
    const std::string data = pattern(static_cast<std::size_t>(bytes), seed + std::size_t(rank()));
    // Each method reads what others wrote.
    const bool sieves_writes = random.one_in(2);
    for (const bool writes : {true, false}) {
      Options options = options_of(writes == sieves_writes ? Sieving::enabled : Sieving::disabled);
      options.hints = hints;
      File file(MPI_COMM_WORLD, directory / "file", O_CREAT | O_RDWR, options);
      file.set_view(5, mine.map(), order);
      const std::int64_t there = mine.bytes.empty() ? 0 : bytes;
      const std::string own = data.substr(0, static_cast<std::size_t>(there));
      if (writes) {
        file.write_at_all(0, bytes_of(own));
      } else {
        expect_at(file, 0, own);
      }
      file.close();
    }
    if (rank() == 0) write_file(directory / "file", "");
    barrier();
  }
}

}  // namespace
}  // namespace ferry::collective::sieve_test
