// Several files, each for a group of ranks.
#include <filesystem>

#include "collective/kept_storage.hpp"
#include "collective/world.hpp"
#include "support/failing_storage.hpp"
#include "support/striped_storage.hpp"

namespace ferry::collective {
namespace {

using namespace test;

constexpr std::int64_t piece_bytes = 20'000;

std::string of_rank(int of) {
  return pattern(piece_bytes, static_cast<std::uint64_t>(of));
}

Options options_with(int files) {
  Options options;
  options.files = files;
  return options;
}

int files_in(const SharedDirectory& directory) {
  const std::filesystem::directory_iterator list(directory / "");
  return static_cast<int>(std::distance(begin(list), end(list)));
}

// Which is for each of them one client of the servers, and not a new one for each open.
TEST(Files, OfServersShareAStorageUntilMpiEnds) {
  const std::shared_ptr<storage::Storage> kept = storage_for("ceph:/a");
  EXPECT_EQ(storage_for("nfs://server/b"), kept);
  EXPECT_NE(storage_for("/a"), kept);
  ended_by_finalize = kept;
}

// It may live on, and be killed, with what it has not handed over.
TEST(Files, OfServersHandTheirDataOverWhenTheyAreClosed) {
  const auto storage = std::make_shared<FailingStorage>(Random());
  const std::string mine = of_rank(rank());
  const auto error_of_closing = [&](const char* path, int flags) {
    File file(MPI_COMM_SELF, path, flags, Options(), storage);
    if (flags != O_RDONLY) {
      EXPECT_EQ(file.write_at_all(0, bytes_of(mine)), piece_bytes);
    }
    storage->faults.syncs = 1;
    const int error = error_of([&] { file.close(); });
    storage->faults.syncs = 0;
    return error;
  };
  EXPECT_EQ(error_of_closing("ceph:/f", O_CREAT | O_RDWR), EIO);
  EXPECT_EQ(error_of_closing("ceph:/f", O_RDONLY), 0);
  EXPECT_EQ(error_of_closing("/f", O_CREAT | O_RDWR), 0);
}

TEST(Files, OneForEachRank) {
  const SharedDirectory directory;
  File file(MPI_COMM_WORLD, directory / "field", O_CREAT | O_RDWR, options_with(1000));
  EXPECT_EQ(file.path(), directory / "field." + std::to_string(rank()));
  const std::string mine = of_rank(rank());
  const std::int64_t bytes = piece_bytes - rank();  // each its own
  EXPECT_EQ(file.write_all(bytes_of(mine).first(static_cast<std::size_t>(bytes))), bytes);
  EXPECT_EQ(file.size_bytes(), bytes);
  EXPECT_EQ(file.statistics().counts.storage_opens, static_cast<std::uint64_t>(ranks()));
  EXPECT_EQ(file.statistics().counts.messages, 0U);
  file.sync();
  file.close();
  barrier();
  EXPECT_EQ(files_in(directory), ranks());
  const int neighbour = (rank() + 1) % ranks();
  EXPECT_TRUE(same_bytes(read_file(directory / "field." + std::to_string(neighbour)),
                         of_rank(neighbour).substr(0, std::size_t(piece_bytes - neighbour))));
}

TEST(Files, GroupsShareOneAndItsWriter) {
  const SharedDirectory directory;
  const int groups = std::min(2, ranks());
  const int index = rank() * groups / ranks();
  int first = 0;  // of this group
  while (first * groups / ranks() != index)
    ++first;
  int count = 0;
  for (int of = 0; of < ranks(); ++of)
    if (of * groups / ranks() == index) ++count;
  for (const Method method : {Method::aggregate, Method::serial}) {
    Options options = test::options_of(method, 1);
    options.files = groups;
    File file(MPI_COMM_WORLD, directory / "field", O_CREAT | O_RDWR | O_TRUNC, options);
    const std::string mine = of_rank(rank());
    Transfer transfer = file.iwrite_at_all((rank() - first) * piece_bytes, bytes_of(mine));
    EXPECT_EQ(transfer.wait(), piece_bytes);
    EXPECT_EQ(file.statistics().counts.storage_opens, static_cast<std::uint64_t>(groups));
    EXPECT_EQ(file.statistics().writers, groups) << "one for each file";
    EXPECT_EQ(file.size_bytes(), count * piece_bytes);
    expect_at(file, (rank() - first) * piece_bytes, mine);
    file.close();
  }
  EXPECT_EQ(files_in(directory), groups);
}

// If the storage allows a choice; it spreads the files beyond the number of servers itself.
TEST(Files, BeginOnOneServerAfterTheOther) {
  const SharedDirectory directory;
  storage::Layout defaults;
  defaults.stripe_bytes = 1 << 20;
  defaults.stripe_count = 1;
  constexpr int servers = 3;
  const auto striped = std::make_shared<StripedStorage>(defaults, servers);
  File file(MPI_COMM_WORLD, directory / "field", O_CREAT | O_RDWR, options_with(ranks()), striped);
  EXPECT_EQ(file.stripes().stripe_count, 1);
  // One file for all is no group of files.
  const int wanted = ranks() == 1 || rank() >= servers ? -1 : rank();
  EXPECT_EQ(striped->granted(file.path()).first_server, wanted);
  const std::string mine = of_rank(rank());
  EXPECT_EQ(file.write_all(bytes_of(mine)), piece_bytes);
  file.close();
}

TEST(Files, ErrorsOfOneAreThrownOnAllRanks) {
  const SharedDirectory directory;
  // The last rank's file exists already.
  if (rank() == 0) {
    write_file(directory / "field." + std::to_string(ranks() - 1), "there");
  }
  barrier();
  EXPECT_EQ(error_of([&] {
              File file(MPI_COMM_WORLD, directory / "field", O_CREAT | O_EXCL | O_RDWR,
                        options_with(ranks()));
            }),
            EEXIST);
  File file(MPI_COMM_WORLD, directory / "field", O_CREAT | O_RDWR, options_with(ranks()));
  const std::string mine = of_rank(rank());
  const auto wrong = [&](std::int64_t good) { return rank() == ranks() - 1 ? -1 : good; };
  EXPECT_EQ(error_of([&] { file.write_at_all(wrong(0), bytes_of(mine)); }), EINVAL);
  EXPECT_EQ(error_of([&] { file.iwrite_at_all(wrong(0), bytes_of(mine)).wait(); }), EINVAL);
  EXPECT_EQ(error_of([&] { file.resize(wrong(10)); }), EINVAL);
  EXPECT_EQ(error_of([&] { file.set_view(wrong(0), TypeMap()); }), EINVAL);
  EXPECT_EQ(file.write_at_all(0, bytes_of(mine)), piece_bytes) << "and it goes on";
  file.close();
}

// How often ranks were divided into groups so far.
int divisions = 0;

// Writes and reads a file for each of this many groups.
void use_files(MPI_Comm communicator, const std::string& path, int groups) {
  File file(communicator, path, O_CREAT | O_RDWR, options_with(groups));
  const std::string mine = of_rank(rank() + groups);
  EXPECT_EQ(file.write_at_all(rank() * piece_bytes, bytes_of(mine)), piece_bytes);
  expect_at(file, rank() * piece_bytes, mine);
  file.close();
}

TEST(Files, RanksAreDividedOnceForEachCommunicatorAndNumberOfFiles) {
  if (ranks() < 4)
    GTEST_SKIP() << "needs groups of which each has two ranks, and two ways to divide";
  const SharedDirectory directory;
  MPI_Comm communicator = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &communicator);
  const auto divisions_of = [&](int groups) {
    const int before = divisions;
    use_files(communicator, directory / "field", groups);
    return divisions - before;
  };
  EXPECT_EQ(divisions_of(2), 1);
  EXPECT_EQ(divisions_of(2), 0);
  EXPECT_EQ(divisions_of(3), 1);
  EXPECT_EQ(divisions_of(2), 1) << "only the last is kept";
  EXPECT_EQ(divisions_of(ranks()), 0) << "nobody shares";
  MPI_Comm_free(&communicator);
  EXPECT_EQ(communicator, MPI_COMM_NULL);
  use_files(MPI_COMM_WORLD, directory / "other", 2);
}

}  // namespace
}  // namespace ferry::collective

// Replaces the MPI library's function, as MPI's profiling interface allows.
int MPI_Comm_create_group(MPI_Comm communicator, MPI_Group group, int tag, MPI_Comm* made) {
  ++ferry::collective::divisions;
  return PMPI_Comm_create_group(communicator, group, tag, made);
}
