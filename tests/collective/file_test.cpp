// The calls of collective::File besides random transfers: opening, positions, hints, counts, sizes.
#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

#include "collective/world.hpp"

namespace ferry::collective {
namespace {

using test::bytes_of;
using test::pattern;
using test::rank;
using test::ranks;
using test::read_file;
using test::same_bytes;
using test::SharedDirectory;
using test::write_file;

constexpr std::int64_t gib = std::int64_t{1} << 30;
constexpr Method own_methods[] = {Method::independent, Method::serial, Method::aggregate};

Options options_of(Method method, int writers) {
  Options options;
  options.write_method = options.read_method = method;
  options.writers = writers;
  return options;
}

std::string seen_by(int of) {
  return pattern(5000, static_cast<std::uint64_t>(of) + 1);
}

TEST(CollectiveFile, OnlyWritersOpenIt) {
  const SharedDirectory directory;
  const int writers = std::min(2, ranks());
  File file(MPI_COMM_WORLD, directory / "file", O_CREAT | O_EXCL | O_RDWR,
            options_of(Method::aggregate, 2));
  EXPECT_EQ(static_cast<int>(file.writers().size()), writers);
  file.write_at_all(rank() * 5000, bytes_of(seen_by(rank())));
  EXPECT_EQ(file.statistics().counts.storage_opens, static_cast<std::uint64_t>(writers));
  // An independent call needs a handle of its own.
  file.write_at(rank() * 5000, bytes_of(seen_by(rank())));
  EXPECT_EQ(file.statistics().counts.storage_opens, static_cast<std::uint64_t>(ranks()));
  file.close();
}

TEST(CollectiveFile, CreatesWithTheModeAndTruncatesOnce) {
  const SharedDirectory directory;
  const std::string path = directory / "file";
  for (const int flags : {O_CREAT | O_RDWR, O_RDWR | O_TRUNC}) {
    Options options = options_of(Method::aggregate, ranks());
    options.mode = 0600;
    File file(MPI_COMM_WORLD, path, flags, options);
    EXPECT_EQ(file.size_bytes(), 0);
    file.write_at_all(rank() * 5000, bytes_of(seen_by(rank())));
    EXPECT_EQ(file.size_bytes(), ranks() * 5000);
    file.close();
  }
  struct stat status {};
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
}

TEST(CollectiveFile, PositionsFollowTransfersAndViewsResetThem) {
  const SharedDirectory directory;
  File file(MPI_COMM_WORLD, directory / "file", O_CREAT | O_RDWR);
  const TypeMap mine = TypeMap::strided(1, 100, 100 * ranks());
  file.set_view(rank() * 100, mine);
  const std::string data = pattern(1000, static_cast<std::uint64_t>(rank()));
  EXPECT_EQ(file.write_all(bytes_of(data).first(130)), 130);
  EXPECT_EQ(file.write_all(bytes_of(data).subspan(130)), 870);
  file.set_view(rank() * 100, mine);
  std::string got(1000, '\0');
  EXPECT_EQ(file.read_all(bytes_of(got).first(999)), 999);
  EXPECT_EQ(file.read_all(bytes_of(got).subspan(999)), 1);
  EXPECT_EQ(file.read_all(bytes_of(got)), 0) << "the end of the file";
  EXPECT_TRUE(same_bytes(got, data));
  file.close();
}

TEST(CollectiveFile, IndependentTransfersUseTheView) {
  const SharedDirectory directory;
  File file(MPI_COMM_WORLD, directory / "file", O_CREAT | O_RDWR);
  file.set_view(rank() * 10, TypeMap::strided(1, 10, 10 * ranks()));
  const std::string data = seen_by(rank());
  // Each rank as often as it likes.
  for (int i = 0; i <= rank(); ++i)
    EXPECT_EQ(file.write_at(7, bytes_of(data)), 5000);
  test::barrier();
  std::string got(5000, '\0');
  EXPECT_EQ(file.read_at(7, bytes_of(got)), 5000);
  EXPECT_TRUE(same_bytes(got, data));
  EXPECT_LT(file.read_at(5000, bytes_of(got)), 5000) << "short at the end of the file";
  file.close();
}

TEST(CollectiveFile, ReadsAreShortAtTheEndOfAFileThatWasCut) {
  const SharedDirectory directory;
  for (const Method method : own_methods) {
    File file(MPI_COMM_WORLD, directory / "file", O_CREAT | O_RDWR, options_of(method, 2));
    file.write_at_all(rank() * 5000, bytes_of(seen_by(rank())));
    file.resize((ranks() - 1) * 5000 + 1234);  // the last rank's part ends early
    std::string got(5000, '?');
    const std::int64_t there = rank() == ranks() - 1 ? 1234 : 5000;
    EXPECT_EQ(file.read_at_all(rank() * 5000, bytes_of(got)), there) << name_of(method);
    EXPECT_TRUE(same_bytes(got.substr(0, static_cast<std::size_t>(there)),
                           seen_by(rank()).substr(0, static_cast<std::size_t>(there))));
    EXPECT_EQ(file.read_at_all(ranks() * 5000, bytes_of(got)), 0);
    file.sync();
    file.close();
  }
}

TEST(CollectiveFile, RanksMayContributeNothing) {
  const SharedDirectory directory;
  for (const Method method : own_methods) {
    File file(MPI_COMM_WORLD, directory / "file", O_CREAT | O_RDWR, options_of(method, 2));
    const bool has = rank() == ranks() - 1;
    const std::string data = seen_by(0);
    const auto mine = bytes_of(data).first(has ? data.size() : 0);
    EXPECT_EQ(file.write_at_all(100, mine), has ? 5000 : 0);
    EXPECT_EQ(file.write_at_all(0, {}), 0) << "nobody has anything";
    std::string got(5000, '\0');
    EXPECT_EQ(file.read_at_all(100, bytes_of(got).first(has ? 0 : 5000)), has ? 0 : 5000);
    if (!has) {
      EXPECT_TRUE(same_bytes(got, data));
    }
    file.close();
  }
}

TEST(CollectiveFile, AggregationMakesFewRequestsOfManyPieces) {
  const SharedDirectory directory;
  constexpr std::int64_t piece = 512;
  constexpr std::int64_t pieces = 256;
  const auto requests = [&](Method method) {
    File file(MPI_COMM_WORLD, directory / "file", O_CREAT | O_RDWR, options_of(method, 1));
    file.set_view(rank() * piece, TypeMap::strided(pieces, piece, piece * ranks()));
    const std::string data = pattern(piece * pieces, static_cast<std::uint64_t>(rank()));
    file.write_all(bytes_of(data));
    const Statistics statistics = file.statistics();
    EXPECT_EQ(statistics.method, method);
    EXPECT_EQ(statistics.counts.storage_bytes,
              static_cast<std::uint64_t>(piece * pieces * ranks()));
    file.close();
    return statistics.counts;
  };
  const Counts aggregate = requests(Method::aggregate);
  EXPECT_EQ(aggregate.storage_requests, 1U) << "all in one window of 4 MiB";
  // Those on the writer's node copy, the others send one message each.
  const auto& nodes = test::world().node_of();
  const auto near = std::count(nodes.begin(), nodes.end(), nodes[0]);
  const auto bytes_of_ranks = [](std::int64_t count) {
    return static_cast<std::uint64_t>(count * piece * pieces);
  };
  EXPECT_EQ(aggregate.shared_bytes, bytes_of_ranks(near - 1));
  EXPECT_EQ(aggregate.messages, static_cast<std::uint64_t>(ranks() - near));
  EXPECT_EQ(aggregate.message_bytes, bytes_of_ranks(ranks() - near));
  if (ranks() > 1) {
    EXPECT_EQ(requests(Method::independent).storage_requests,
              static_cast<std::uint64_t>(pieces * ranks()));
  }
}

TEST(CollectiveFile, AutomaticAggregatesSmallPiecesAndLeavesLargeOnesAlone) {
  if (ranks() == 1) GTEST_SKIP() << "one rank has nothing to aggregate";
  const SharedDirectory directory;
  File file(MPI_COMM_WORLD, directory / "file", O_CREAT | O_RDWR);
  const std::string data = pattern(1 << 20, 1);
  file.write_at_all(rank() * (1 << 20), bytes_of(data));
  EXPECT_EQ(file.statistics().method, Method::independent);
  EXPECT_EQ(file.statistics().writers, ranks());
  file.write_at_all(rank() * 100, bytes_of(data).first(100));
  EXPECT_EQ(file.statistics().method, Method::aggregate);
  EXPECT_EQ(file.statistics().reason, "extents of 100 bytes on average, less than 1 MiB");
  file.close();
}

TEST(CollectiveFile, TellsWhereTheTimeWent) {
  const SharedDirectory directory;
  File file(MPI_COMM_WORLD, directory / "file", O_CREAT | O_RDWR, options_of(Method::aggregate, 1));
  file.write_at_all(rank() * 5000, bytes_of(seen_by(rank())));
  file.sync();
  const Statistics statistics = file.statistics();
  for (const double Phases::*phase : {&Phases::plan_ns, &Phases::exchange_ns, &Phases::pack_ns,
                                      &Phases::file_io_ns, &Phases::sync_ns, &Phases::wait_ns}) {
    EXPECT_GT(statistics.maximum.*phase, 0.0);
    EXPECT_GE(statistics.maximum.*phase, statistics.mean.*phase);
  }
  file.close();
}

std::map<std::string, std::string> effective(const File& file) {
  MPI_Info info = file.hints();
  std::map<std::string, std::string> hints;
  for (const char* name : {"cb_nodes", "cb_buffer_size", "striping_unit", "romio_cb_write",
                           "romio_cb_read", "ferry_method", "ferry_write_out"}) {
    char value[100] = {};
    int found = 0;
    MPI_Info_get(info, name, 99, value, &found);
    if (found != 0) hints[name] = value;
  }
  MPI_Info_free(&info);
  return hints;
}

TEST(Hints, AreTakenAndReadBack) {
  const SharedDirectory directory;
  MPI_Info info = MPI_INFO_NULL;
  MPI_Info_create(&info);
  MPI_Info_set(info, "cb_nodes", "2");
  MPI_Info_set(info, "cb_buffer_size", "1048576");
  MPI_Info_set(info, "striping_unit", "65536");
  MPI_Info_set(info, "romio_cb_write", "enable");
  MPI_Info_set(info, "romio_cb_read", "disable");
  MPI_Info_set(info, "cb_config_list", "*:1");
  MPI_Info_set(info, "ferry_write_out", "disable");
  Options options;
  options.hints = info;
  options.warn = [](const std::string&) { ADD_FAILURE() << "nothing is wrong"; };
  File file(MPI_COMM_WORLD, directory / "file", O_CREAT | O_RDWR, options);
  MPI_Info_free(&info);
  EXPECT_EQ(effective(file),
            (std::map<std::string, std::string>{{"cb_nodes", std::to_string(std::min(2, ranks()))},
                                                {"cb_buffer_size", "1048576"},
                                                {"striping_unit", "65536"},
                                                {"romio_cb_write", "enable"},
                                                {"romio_cb_read", "disable"},
                                                {"ferry_write_out", "disable"}}));
  file.write_at_all(rank() * 10, bytes_of(seen_by(0)).first(10));
  EXPECT_EQ(file.statistics().method, Method::aggregate);
  std::string got(10, '\0');
  file.read_at_all(rank() * 10, bytes_of(got));
  EXPECT_EQ(file.statistics().method, Method::independent);
  file.close();
}

TEST(Hints, UnknownAndSenselessOnesAreWarnedAboutOnce) {
  const SharedDirectory directory;
  MPI_Info info = MPI_INFO_NULL;
  MPI_Info_create(&info);
  MPI_Info_set(info, "cb_nods", "2");
  MPI_Info_set(info, "cb_buffer_size", "much");
  MPI_Info_set(info, "ferry_method", "mpiio2");
  int warned = 0;
  Options options;
  options.hints = info;
  options.warn = [&](const std::string&) { ++warned; };
  File file(MPI_COMM_WORLD, directory / "file", O_CREAT | O_RDWR, options);
  MPI_Info_free(&info);
  EXPECT_EQ(warned, rank() == 0 ? 3 : 0);
  ASSERT_EQ(file.warnings().size(), 3U);
  EXPECT_EQ(file.warnings()[0],
            "hint cb_nods is not known; docs/collective.md lists those that are");
  EXPECT_EQ(
      file.warnings()[1],
      "hint cb_buffer_size is ignored: \"much\" is no value for it; docs/collective.md lists them");
  const auto& nodes = test::world().node_of();
  const bool one_node = std::count(nodes.begin(), nodes.end(), nodes[0]) == ranks();
  EXPECT_EQ(effective(file)["cb_buffer_size"], one_node ? "4194304" : "16777216");
  file.close();
}

TEST(Large, PiecesBeyondFourGibibytes) {
  const SharedDirectory directory;
  for (const Method method : own_methods) {
    File file(MPI_COMM_WORLD, directory / "file", O_CREAT | O_RDWR | O_TRUNC,
              options_of(method, 2));
    file.set_view(rank() * 1000, TypeMap::strided(1, 1000, 3 * gib));
    const std::string data = seen_by(rank());  // five pieces, up to 12 GiB
    EXPECT_EQ(file.write_all(bytes_of(data)), 5000);
    EXPECT_EQ(file.size_bytes(), 12 * gib + ranks() * 1000);
    std::string got(5000, '\0');
    EXPECT_EQ(file.read_at_all(0, bytes_of(got)), 5000);
    EXPECT_TRUE(same_bytes(got, data)) << name_of(method);
    file.set_view(0, TypeMap());
    std::string last(1000, '\0');
    EXPECT_EQ(file.read_at(12 * gib + rank() * 1000, bytes_of(last)), 1000);
    EXPECT_TRUE(same_bytes(last, data.substr(4000)));
    file.close();
  }
}

// The memory is one page of zeros seen again and again, and nothing keeps what is written.
TEST(Large, MoreThanTwoGibibytesOfOneRank) {
  constexpr std::int64_t bytes = 2 * gib + 12345;
  void* memory = mmap(nullptr, static_cast<std::size_t>(bytes), PROT_READ,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  const std::span<const std::byte> data(static_cast<std::byte*>(memory), std::size_t{bytes});
  for (const Method method : own_methods) {
    File file(MPI_COMM_WORLD, "/dev/null", O_RDWR, options_of(method, 1));
    const bool has = rank() == ranks() - 1;
    EXPECT_EQ(file.write_at_all(0, has ? data : data.first(0)), has ? bytes : 0);
    EXPECT_EQ(file.statistics().counts.storage_bytes, static_cast<std::uint64_t>(bytes));
    file.close();
  }
  munmap(memory, static_cast<std::size_t>(bytes));
}

}  // namespace
}  // namespace ferry::collective
