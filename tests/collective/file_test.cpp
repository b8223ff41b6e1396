// collective::File besides random transfers: opening, positions, counters, sizes.
#include <chrono>
#include <cmath>
#include <set>
#include <thread>

#include <nlohmann/json.hpp>
#include <sys/mman.h>
#include <unistd.h>

#include "base/residency.hpp"
#include "collective/world.hpp"
#include "support/failing_storage.hpp"

namespace ferry::collective::file_test {
namespace {

using namespace test;

constexpr std::int64_t gib = std::int64_t{1} << 30;
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
  barrier();
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
  // Ranks on the writer's node copy, the others send one message per node.
  const auto& nodes = world().node_of();
  const auto near = std::count(nodes.begin(), nodes.end(), nodes[0]);
  const std::set<int> all(nodes.begin(), nodes.end());
  const auto bytes_of_ranks = [](std::int64_t count) {
    return static_cast<std::uint64_t>(count * piece * pieces);
  };
  std::uint64_t relayed = 0;
  for (const int node : all)
    if (node != nodes[0])
      relayed += bytes_of_ranks(std::count(nodes.begin(), nodes.end(), node) - 1);
  EXPECT_EQ(aggregate.shared_bytes, bytes_of_ranks(near - 1) + relayed);
  EXPECT_EQ(aggregate.messages, all.size() - 1);
  EXPECT_EQ(aggregate.message_bytes, bytes_of_ranks(ranks() - near));
  if (ranks() > 1) {
    EXPECT_EQ(requests(Method::independent).storage_requests,
              static_cast<std::uint64_t>(pieces * ranks()));
  }
}

TEST(CollectiveFile, TellsEachRankWhatItCountsInEachCall) {
  const SharedDirectory directory;
  std::vector<CallCounts> calls;
  Options options = options_of(Method::aggregate, 1);
  options.count = [&](const CallCounts& counts) { calls.push_back(counts); };
  File file(MPI_COMM_WORLD, directory / "file", O_CREAT | O_RDWR, options);
  file.set_view(rank() * 8, TypeMap::strided(1, 8, 8 * ranks()));
  const std::string mine = pattern(800, static_cast<std::uint64_t>(rank()));
  file.write_at_all(0, bytes_of(mine));
  file.write_at(0, bytes_of(mine).first(80));
  file.iwrite_at_all(0, bytes_of(mine)).wait();
  file.write_at_all(0, bytes_of(mine).first(0));
  EXPECT_EQ(error_of([&] { file.refuse(Call::read_all, "no data", EIO); }), EIO);
  std::string got(800, '\0');
  file.read_at_all(0, bytes_of(got));
  file.sync();
  const Statistics statistics = file.statistics();
  std::vector<double> sums(5);
  for (const CallCounts& one : calls) {
    sums[0] += static_cast<double>(one.counts.messages + one.counts.shared_bytes);
    sums[1] += static_cast<double>(one.counts.storage_requests);
    sums[2] += static_cast<double>(one.counts.storage_bytes);
    sums[3] += static_cast<double>(one.counts.storage_opens);
    sums[4] += one.phases.file_io_ns / ranks();
  }
  world().sum(sums);
  const Counts& all = statistics.counts;
  EXPECT_EQ(sums[0], static_cast<double>(all.messages + all.shared_bytes));
  EXPECT_EQ(sums[1], static_cast<double>(all.storage_requests));
  EXPECT_EQ(sums[2], static_cast<double>(all.storage_bytes));
  EXPECT_EQ(sums[3], static_cast<double>(all.storage_opens));
  EXPECT_NEAR(sums[4], statistics.mean.file_io_ns, 1000);
  file.close();
  struct Seen {
    Call call;
    bool is_collective, is_carried_out;
    Method method;
    std::int64_t bytes;
    bool operator==(const Seen&) const = default;
  };
  constexpr Method none = Method::automatic;
  const std::vector<Seen> expected{{Call::open, true, false, none, 0},
                                   {Call::set_view, true, false, none, 0},
                                   {Call::write_all, true, true, Method::aggregate, 800},
                                   {Call::write_all, false, true, Method::independent, 80},
                                   {Call::write_all, true, true, Method::aggregate, 800},
                                   {Call::write_all, true, true, none, 0},
                                   {Call::read_all, true, false, none, 0},
                                   {Call::read_all, true, true, Method::aggregate, 800},
                                   {Call::sync, true, false, none, 0},
                                   {Call::close, true, false, none, 0}};
  ASSERT_EQ(calls.size(), expected.size());
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const CallCounts& one = calls[i];
    EXPECT_EQ((Seen{one.call, one.is_collective, one.is_carried_out, one.method, one.bytes}),
              expected[i])
        << i << ": " << name_of(one.call);
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
  file.set_view(rank() * 100, TypeMap::strided(1, 100, 100 * ranks()));
  file.write_at_all(0, bytes_of(data).first(300));
  EXPECT_EQ(file.statistics().method, Method::aggregate);
  EXPECT_EQ(file.statistics().reason, "extents of 100 bytes on average, less than 1 MiB");
  file.close();
}

TEST(CollectiveFile, AutomaticLeavesContiguousDataToOnePageCache) {
  if (ranks() == 1) GTEST_SKIP() << "one rank has nothing to aggregate";
  const SharedDirectory directory;
  const bool shared = world().is_one_node();
  for (const int flags : {0, O_SYNC}) {
    File file(MPI_COMM_WORLD, directory / "file", O_CREAT | O_RDWR | flags);
    const bool alone = shared && flags == 0;
    const std::string mine = pattern(100, static_cast<std::uint64_t>(rank()));
    file.write_at_all(rank() * 100, bytes_of(mine));
    EXPECT_EQ(file.statistics().method, alone ? Method::independent : Method::aggregate);
    expect_at(file, rank() * 100, mine);
    EXPECT_EQ(file.statistics().method, alone ? Method::independent : Method::aggregate);
    if (alone) {
      EXPECT_EQ(file.statistics().reason, "contiguous data of each rank, through one page cache");
    }
    // One rank without contiguous data is enough.
    const std::int64_t piece = rank() == 0 ? 10 : 100;
    file.set_view(1000 * rank(), TypeMap::strided(1, piece, 100));
    file.write_at_all(0, bytes_of(mine));
    EXPECT_EQ(file.statistics().method, Method::aggregate);
    expect_at(file, 0, mine);
    file.close();
  }
}

TEST(CollectiveFile, AutomaticReadsWhatIsInThePageCacheIndependently) {
  if (ranks() == 1) GTEST_SKIP() << "one rank reads independently anyway";
  const SharedDirectory directory;
  File file(MPI_COMM_WORLD, directory / "file", O_CREAT | O_RDWR);
  for (const std::int64_t piece : {4096, 512}) {
    file.set_view(rank() * piece, TypeMap::strided(1, piece, piece * ranks()));
    const std::string mine = pattern(65'536, static_cast<std::uint64_t>(rank()));
    file.write_at_all(0, bytes_of(mine));
    EXPECT_EQ(file.statistics().method, Method::aggregate);
    expect_at(file, 0, mine);
    // Rank 0 only sees its own node's page cache.
    const bool alone = piece >= 4096 && world().is_one_node();
    EXPECT_EQ(file.statistics().method, alone ? Method::independent : Method::aggregate);
    if (alone) {
      EXPECT_EQ(file.statistics().reason, "in the page cache, extents of 4096 bytes on average");
    }
  }
  file.close();
}

// Neither small nor large extents: the other method is tried, on all ranks or on none.
TEST(CollectiveFile, AutomaticMeasuresWhereItsRuleIsNotSure) {
  if (ranks() == 1) GTEST_SKIP() << "one rank has one method";
  const SharedDirectory directory;
  File file(MPI_COMM_WORLD, directory / "file", O_CREAT | O_RDWR);
  constexpr std::int64_t piece = 256 << 10;
  constexpr std::int64_t pieces = 4;
  file.set_view(rank() * piece, TypeMap::strided(1, piece, piece * ranks()));
  std::string written;
  for (std::uint64_t i = 0; i < 14; ++i) {
    const std::string mine = pattern(pieces * piece, 100 * i + static_cast<std::uint64_t>(rank()));
    const std::int64_t offset = static_cast<std::int64_t>(i) * pieces * piece;
    // One rank whose time says nothing is enough to try nothing.
    const bool mixed = i == 3 || i == 13;
    if (mixed && rank() == 0) {
      file.iwrite_at_all(offset, bytes_of(mine)).wait();
    } else {
      file.write_at_all(offset, bytes_of(mine));
    }
    written += mine;
    const Statistics statistics = file.statistics();
    if (i < 4) {
      EXPECT_EQ(statistics.method, Method::aggregate) << i;
    } else if (i == 4) {
      EXPECT_EQ(statistics.method, Method::independent);
      EXPECT_EQ(statistics.reason, "tried, and measured beside aggregate");
    }
    const std::array mine_and_not{static_cast<std::int64_t>(statistics.method),
                                  -static_cast<std::int64_t>(statistics.method)};
    std::array extremes = mine_and_not;
    MPI_Allreduce(mine_and_not.data(), extremes.data(), 2, MPI_INT64_T, MPI_MAX, MPI_COMM_WORLD);
    EXPECT_EQ(extremes[0], -extremes[1]) << i;
  }
  std::string found(written.size(), '?');
  EXPECT_EQ(file.read_at(0, bytes_of(found)), static_cast<std::int64_t>(written.size()));
  EXPECT_TRUE(same_bytes(found, written));
  file.close();
}

// Rank 0 alone. False: the file system keeps it in memory.
bool drop_from_page_cache(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  EXPECT_EQ(fsync(fd), 0);
  EXPECT_EQ(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED), 0);
  const auto resident = resident_bytes(fd, 0, 1);
  close(fd);
  return resident == 0;
}

TEST(CollectiveFile, AutomaticExchangesPiecesThatComeFromTheDisk) {
  if (ranks() == 1) GTEST_SKIP() << "one rank reads independently anyway";
  const SharedDirectory directory;
  constexpr std::int64_t piece = 4096;
  File file(MPI_COMM_WORLD, directory / "file", O_CREAT | O_RDWR);
  for (const std::int64_t pieces : {16, 1}) {
    file.set_view(rank() * piece * pieces,
                  TypeMap::strided(1, piece * pieces, piece * 16 * ranks()));
    const std::string mine = pattern(65'536, static_cast<std::uint64_t>(rank()));
    file.write_at_all(0, bytes_of(mine));
    file.sync();
    int dropped = rank() == 0 && drop_from_page_cache(directory / "file") ? 1 : 0;
    MPI_Bcast(&dropped, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (dropped == 0) GTEST_SKIP() << "this file system keeps its files in memory";
    expect_at(file, 0, mine);
    // One piece for each rank would not become larger by an exchange.
    const bool alone = pieces == 16 && world().is_one_node();
    EXPECT_EQ(file.statistics().method, alone ? Method::independent : Method::aggregate);
  }
  file.close();
}

TEST(CollectiveFile, ReadsLeaveMemoryBehindTheEndOfTheFileAlone) {
  const SharedDirectory directory;
  if (rank() == 0) write_file(directory / "file", pattern(32, 1));
  barrier();
  for (const bool swaps : {false, true}) {
    for (const bool sieves : {false, true}) {
      Options options;
      if (sieves) options.read_sieving = Sieving::enabled;
      File file(MPI_COMM_WORLD, directory / "file", O_RDWR, options);
      const Representation representation{swaps ? ByteOrder::big : ByteOrder::native, 8};
      file.set_view(0, TypeMap::strided(1, 64, 128), representation);
      std::string found(64, '?');
      EXPECT_EQ(file.read_at_all(0, bytes_of(found)), 32);
      EXPECT_EQ(found.substr(32), std::string(32, '?')) << swaps << sieves;
      file.close();
    }
  }
}

TEST(CollectiveFile, ARankReadsWhatItHasJustWritten) {
  if (ranks() == 1) GTEST_SKIP() << "nobody asks for the size before";
  const SharedDirectory directory;
  File file(MPI_COMM_WORLD, directory / "file", O_CREAT | O_RDWR);
  file.set_view(0, TypeMap::strided(1, 100, 200));
  barrier();
  std::string mine;
  if (rank() == ranks() - 1) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));  // the others wait in the call
    mine = pattern(1000, 1);
    EXPECT_EQ(file.write_at(0, bytes_of(mine)), 1000);
  }
  expect_at(file, 0, mine);
  file.close();
}

TEST(CollectiveFile, WhoGoesFirstMovesItsDataOnce) {
  const SharedDirectory directory;
  if (!world().is_one_node()) GTEST_SKIP() << "nobody goes first where ranks share no page cache";
  Options options;
  options.writes_first = true;
  const std::string mine = pattern(200'000, static_cast<std::uint64_t>(rank()));
  const std::int64_t at = rank() * std::ssize(mine);
  {
    // Only the writers have it open before, so that the others cannot go first.
    File file(MPI_COMM_WORLD, directory / "file", O_CREAT | O_RDWR, options);
    file.write_at_all(at, bytes_of(mine));
    EXPECT_EQ(file.statistics().counts.storage_requests, ranks());
    file.close();
  }
  File file(MPI_COMM_WORLD, directory / "file", O_RDWR, options);
  for (int reads = 1; reads <= 2; ++reads) {
    expect_at(file, at, mine);
    EXPECT_EQ(file.statistics().counts.storage_requests, reads * ranks());
  }
  file.close();
}

// Ranks that do not write for others have it open only once they have moved data by themselves.
TEST(CollectiveFile, RanksNeedNoNameOfItForAnExchange) {
  if (ranks() == 1) GTEST_SKIP() << "one rank exchanges nothing";
  const SharedDirectory directory;
  Options options;
  options.writes_first = true;
  File file(MPI_COMM_WORLD, directory / "file", O_CREAT | O_RDWR, options);
  barrier();
  if (rank() == 0) unlink((directory / "file").c_str());
  barrier();
  const std::int64_t piece = rank() == 0 ? 10 : 100;  // rank 0's are many
  file.set_view(10'000 * rank(), TypeMap::strided(1, piece, 1000));
  const std::string mine = pattern(100, static_cast<std::uint64_t>(rank()));
  EXPECT_EQ(file.write_at_all(0, bytes_of(mine)), 100);
  expect_at(file, 0, mine);
  file.close();
}

TEST(CollectiveFile, AutomaticWritesOutToServersAndAfterTheFirstSync) {
  const int descriptor = memfd_create("ferry-test", MFD_CLOEXEC);
  const bool shared = world().is_one_node();
  for (const WriteOut write_out : {WriteOut::enabled, WriteOut::disabled, WriteOut::automatic}) {
    for (const bool in_page_cache : {false, true}) {
      const auto storage = std::make_shared<FailingStorage>(Random());
      storage->descriptor = in_page_cache ? descriptor : -1;
      Options options = options_of(Method::serial, 1);
      options.write_out = write_out;
      File file(MPI_COMM_WORLD, "/file", O_CREAT | O_RDWR, options, storage);
      const std::string mine = pattern(1000, 1);
      for (const bool synced : {false, true}) {
        const std::uint64_t before = storage->writes_for_sync;
        file.write_at_all(rank() * 1000, bytes_of(mine));
        const bool expected =
            write_out == WriteOut::enabled ||
            (write_out == WriteOut::automatic && (synced || !in_page_cache || !shared));
        EXPECT_EQ(storage->writes_for_sync > before, expected && rank() == 0);
        file.sync();
      }
      file.close();
    }
  }
  close(descriptor);
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
  const auto json = nlohmann::json::parse(to_json(statistics));
  EXPECT_EQ(json.at("method"), "aggregate");
  EXPECT_EQ(json.at("writers"), 1);
  EXPECT_EQ(json.at("counts").at("storage_bytes"), 5000 * ranks());
  EXPECT_EQ(json.at("mean").at("sync_ns"), std::llround(statistics.mean.sync_ns));
  EXPECT_EQ(json.at("maximum").at("file_io_ns"), statistics.maximum.file_io_ns);
  EXPECT_EQ(json.at("stripes").at("stripe_bytes"), statistics.stripes.stripe_bytes);
  file.close();
}

TEST(Large, PiecesBeyondFourGibibytes) {
  const SharedDirectory directory;
  for (const Method method : own_methods) {
    SCOPED_TRACE(name_of(method));
    File file(MPI_COMM_WORLD, directory / "file", O_CREAT | O_RDWR | O_TRUNC,
              options_of(method, 2));
    file.set_view(rank() * 1000, TypeMap::strided(1, 1000, 3 * gib));
    const std::string data = seen_by(rank());  // five pieces, up to 12 GiB
    EXPECT_EQ(file.write_all(bytes_of(data)), 5000);
    EXPECT_EQ(file.size_bytes(), 12 * gib + ranks() * 1000);
    expect_at(file, 0, data);
    file.set_view(0, TypeMap());
    std::string last(1000, '\0');
    EXPECT_EQ(file.read_at(12 * gib + rank() * 1000, bytes_of(last)), 1000);
    EXPECT_TRUE(same_bytes(last, data.substr(4000)));
    file.close();
  }
}

// Memory is one page of zeros mapped repeatedly, and writes are discarded.
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
}  // namespace ferry::collective::file_test
