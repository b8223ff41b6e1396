// A loop's handling of requests from its rings, and of writes that come in pieces.
#include "server/loop.hpp"

#include <cerrno>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>

#include "support/depth.hpp"
#include "support/files.hpp"
#include "support/server_rig.hpp"

namespace ferry::server {
namespace {

using device::Opcode;
using device::Pending;
using device::Request;
using test::ServerRig;
using test::small_geometry;

// The answer to a request that no program makes.
std::int64_t result_of(const ServerRig& rig, Request request, std::uint32_t group = 0) {
  device::Requester requester(rig.arena.context(), group);
  return requester.call(request).result;
}

class LoopTest : public test::OnFakeStorage {
 protected:
  void SetUp() override { make(small_geometry(1, 2)); }
};

TEST_F(LoopTest, AnswersEmptyRequests) {
  auto calls = rig->calls(0);
  for (std::uint64_t i = 0; i < test::scaled(20'000); ++i)
    ASSERT_EQ(calls.ping(), 0);
}

TEST_F(LoopTest, CountsWhatItDid) {
  auto calls = rig->calls(0);
  const int file = calls.open("any", O_RDWR);
  ASSERT_GE(file, 1);
  EXPECT_EQ(calls.pread(file, rig->heap(), 1000, 0), 1000);
  EXPECT_EQ(calls.pwrite(file, rig->heap(), 300, 0), 300);
  EXPECT_EQ(calls.pread(-5, rig->heap(), 10, 0), -EBADF);
  EXPECT_EQ(calls.pread(file, rig->heap(), 10, -1), -EINVAL);
  EXPECT_EQ(calls.close(file), 0);
  const LoopStatistics statistics = rig->server->statistics(0);
  EXPECT_EQ(statistics.requests, 6U);
  EXPECT_EQ(statistics.refused, 2U);
  EXPECT_EQ(statistics.bytes_read, 1000U);
  EXPECT_EQ(statistics.bytes_written, 300U);
}

TEST_F(LoopTest, RefusesWhatIsNoCall) {
  for (const int opcode : {13, 14, 100, 200, 255}) {
    EXPECT_EQ(result_of(*rig, test::request_of(static_cast<Opcode>(opcode))), -EINVAL) << opcode;
  }
  EXPECT_EQ(rig->calls(1).ping(), 0);
}

TEST_F(LoopTest, IgnoresCellsThatDoNotExist) {
  const device::RequestRing ring = rig->arena.view().ring(0);
  for (const std::uint32_t cell : {rig->arena.view().cell_count(), 0x7fffffffU, 0xffffffffU}) {
    Request request{};
    request.cell = cell;
    request.sequence = 1;
    ring.publish(test::claim(ring, 1), &request, 1);
  }
  EXPECT_EQ(rig->calls(0).ping(), 0);
}

TEST_F(LoopTest, ServesEveryRingItOwns) {
  device::Geometry geometry = small_geometry(2, 7);
  geometry.rings = 5;
  make(geometry);
  for (std::uint32_t group = 0; group < 7; ++group)
    EXPECT_EQ(rig->calls(group).ping(), 0) << group;
  // Rings 0, 2, 4 are the first loop's: groups 0, 2, 4, 5 use them.
  EXPECT_EQ(rig->server->statistics(0).requests, 4U);
  EXPECT_EQ(rig->server->statistics(1).requests, 3U);
}

TEST_F(LoopTest, TakesMoreRequestsThanItHasRoomFor) {
  ServerOptions options;
  options.in_flight_max = 2;
  make(small_geometry(1, 3), std::move(options));
  auto calls = rig->calls(0);
  std::vector<Pending> pending = held_reads(calls, 15);
  ASSERT_TRUE(holds(2));
  EXPECT_FALSE(calls.ready(pending[0]));
  storage->release();
  test::within_patience("requests that waited for room", [&] {
    for (Pending& one : pending)
      EXPECT_EQ(calls.wait(one), 64);
  });
}

// A storage that hangs may hold any number of them: those of others go on.
TEST_F(LoopTest, HeldRequestsLeaveRoomForOthers) {
  constexpr std::uint32_t groups = 40;
  constexpr int reads = 15;  // of each, but for the last
  make(small_geometry(1, groups));
  const int file = rig->calls(0).open("any", O_RDWR);
  storage->hold();
  std::vector<test::Calls> calls;
  std::vector<Pending> pending;
  for (std::uint32_t group = 0; group < groups - 1; ++group) {
    calls.push_back(rig->calls(group));
    for (int i = 0; i < reads; ++i)
      pending.push_back(calls.back().pread_async(file, rig->heap() + pending.size() * 64, 64, 0));
  }
  test::within_patience("a request beside those that the storage holds",
                        [&] { EXPECT_EQ(rig->calls(groups - 1).ping(), 0); });
  EXPECT_TRUE(holds(reads * (groups - 1)));
  storage->release();
  for (std::size_t i = 0; i < pending.size(); ++i)
    EXPECT_EQ(calls[i / reads].wait(pending[i]), 64);
}

TEST_F(LoopTest, AnswersInTheOrderOfCompletion) {
  auto calls = rig->calls(0);
  const int file = calls.open("any", O_RDWR);
  storage->hold();
  Pending slow = calls.pread_async(file, rig->heap(), 64, 0);
  EXPECT_EQ(calls.ping(), 0);
  EXPECT_EQ(calls.fsync(file), 0);
  EXPECT_FALSE(calls.ready(slow));
  storage->release();
  EXPECT_EQ(calls.wait(slow), 64);
}

TEST_F(LoopTest, CloseWaitsForTransfersUnderWay) {
  make(small_geometry(2, 2));
  auto reader = rig->calls(0);
  auto closer = rig->calls(1);
  const int file = reader.open("any", O_RDWR);
  storage->hold();
  Pending own = closer.pread_async(file, rig->heap(), 64, 0);
  Pending others = reader.pread_async(file, rig->heap() + 64, 64, 0);
  ASSERT_TRUE(holds(2));
  std::atomic<int> result{77};
  std::thread closing([&] { result = closer.close(file); });
  // No new call is accepted, although the close has not happened yet.
  EXPECT_TRUE(test::eventually([&] { return reader.fsync(file) == -EBADF; }));
  EXPECT_EQ(storage->counts.closed, 0);
  EXPECT_EQ(result, 77);
  storage->release();
  test::within_patience("close", [&] { closing.join(); });
  EXPECT_EQ(result, 0);
  EXPECT_EQ(storage->counts.closed, 1);
  EXPECT_EQ(storage->counts.files, 0);
  EXPECT_EQ(reader.wait(others), 64);
  EXPECT_EQ(closer.wait(own), 64);
  EXPECT_EQ(reader.close(file), -EBADF);
}

TEST_F(LoopTest, ParksWhenIdleAndWakesForARequest) {
  auto calls = rig->calls(0);
  const auto parks = [&] { return rig->server->statistics(0).parks; };
  for (int round = 0; round < 20; ++round) {
    const std::uint64_t before = parks();
    ASSERT_TRUE(test::eventually([&] {
      return device::SystemRef<std::uint32_t>(rig->arena.view().loop_state(0).parked)
                 .load(device::seq_cst) != 0;
    }));
    ASSERT_EQ(calls.ping(), 0);
    EXPECT_TRUE(test::eventually([&] { return parks() > before; }));
  }
  EXPECT_GT(device::read_counter(rig->arena.view().counters(0).doorbells), 0U);
}

// The program changes the status request after it was taken: the server reads nothing twice.
TEST_F(LoopTest, WritesTheStatusWhereTheRequestSaid) {
  device::FileStatus status{};
  EXPECT_EQ(rig->calls(0).stat("any", &status), 0);
  EXPECT_EQ(status.size_bytes, 4711U);
}

TEST_F(LoopTest, AFullTableRefusesTheNextFile) {
  auto calls = rig->calls(0);
  std::vector<int> files;
  for (int i = 0; i < 16; ++i)
    files.push_back(calls.open("any", O_RDWR));
  EXPECT_GT(*std::min_element(files.begin(), files.end()), 0);
  const int refused = calls.open("any", O_RDWR);
  EXPECT_TRUE(refused == -ENFILE || refused == -EMFILE) << refused;
  EXPECT_EQ(storage->counts.files, 16) << "what was opened in vain is closed";
  EXPECT_EQ(calls.close(files[3]), 0);
  files[3] = calls.open("any", O_RDWR);
  EXPECT_GT(files[3], 0);
}

// open(2) looks for a free descriptor first: a file is not truncated or made by a call that fails.
TEST(LoopOnFiles, AnOpenRefusedForAFullTableDoesNotTruncate) {
  test::ScratchDirectory directory;
  test::write_file(directory / "precious", "data");
  ServerRig rig(small_geometry(1, 1), storage::make_posix(storage::Engine::threads));
  auto calls = rig.calls(0);
  for (int i = 0; i < 16; ++i)
    ASSERT_GT(calls.open((directory / "precious").c_str(), O_RDONLY), 0);
  EXPECT_LT(calls.open((directory / "precious").c_str(), O_RDWR | O_TRUNC), 0);
  EXPECT_EQ(test::read_file(directory / "precious"), "data");
  EXPECT_LT(calls.open((directory / "new").c_str(), O_RDWR | O_CREAT, 0644), 0);
  EXPECT_EQ(test::file_size(directory / "new"), -ENOENT);
}

// ---- writes in pieces, from well-behaved programs and others

class KeptPiecesTest : public testing::Test {
 protected:
  void SetUp() override {
    test::write_file(path, "old");
    file = open();
    other = open();
  }
  int open() { return rig.calls(0).open(path.c_str(), O_RDWR | O_APPEND); }
  std::int64_t send(const std::string& bytes, std::uint64_t kept, bool more, int to) {
    std::memcpy(rig.heap(), bytes.data(), bytes.size());
    return result_of(rig, piece(to, bytes.size(), kept, more));
  }
  Request piece(int to, std::uint64_t bytes, std::uint64_t kept, bool more) {
    const std::uint64_t buffer = rig.arena.view().offset_of(rig.heap());
    Request request = test::request_of(Opcode::write, to, buffer, bytes);
    request.flags = more ? device::flag_append | device::flag_more : device::flag_append;
    request.kept = kept;
    return request;
  }
  std::string contents() { return test::read_file(path); }

  test::ScratchDirectory directory;
  const std::string path = directory / "f";
  test::ServerRig rig{test::small_geometry(1, 2), storage::make_posix(storage::Engine::threads)};
  int file = 0;
  int other = 0;
};

TEST_F(KeptPiecesTest, AreWrittenWithTheLast) {
  EXPECT_EQ(send("one,", 0, true, file), 0);
  EXPECT_EQ(send("two,", 4, true, file), 0);
  EXPECT_EQ(contents(), "old");
  EXPECT_EQ(send("three", 8, false, file), 13);
  EXPECT_EQ(contents(), "oldone,two,three");
  EXPECT_EQ(send("!", 0, false, file), 1) << "a write by itself";
  EXPECT_EQ(contents(), "oldone,two,three!");
}

TEST_F(KeptPiecesTest, OfAnotherWriteAreForgotten) {
  EXPECT_EQ(send("given up", 0, true, file), 0);
  EXPECT_EQ(send("one,", 0, true, file), 0);
  EXPECT_EQ(send("two", 4, false, file), 7);
  EXPECT_EQ(contents(), "oldone,two");
}

TEST_F(KeptPiecesTest, ThatDoNotFitAreRefused) {
  EXPECT_EQ(send("last", 4, false, file), -EINVAL) << "nothing came before";
  EXPECT_EQ(send("more", 4, true, file), -EINVAL);
  EXPECT_EQ(send("one,", 0, true, file), 0);
  EXPECT_EQ(send("two", 3, false, file), -EINVAL);
  EXPECT_EQ(send("two", ~std::uint64_t{0}, false, file), -EINVAL);
  EXPECT_EQ(send("two", 4, false, other), -EINVAL) << "of another handle";
  EXPECT_EQ(send("two", 4, true, 0), -EBADF);
  EXPECT_EQ(send("two", 4, false, file), 7) << "the right one is still to come";
  EXPECT_EQ(contents(), "oldone,two");
  Request outside =
      test::request_of(Opcode::write, file, rig.arena.view().layout.geometry.arena_bytes, 8);
  outside.flags = device::flag_more;
  EXPECT_EQ(result_of(rig, outside), -EFAULT);
}

TEST_F(KeptPiecesTest, AreRefusedWhereTheLastWouldEndBehindAnyFile) {
  EXPECT_EQ(send("one,", 0, true, file), 0);
  Request last = piece(file, 4, 4, false);
  last.offset = INT64_MAX - 6;  // the last piece alone would end in the file
  EXPECT_EQ(result_of(rig, last), -EINVAL);
  EXPECT_EQ(contents(), "old");
}

TEST_F(KeptPiecesTest, OfEachGroupAreItsOwn) {
  for (std::uint32_t group = 0; group < 2; ++group) {
    rig.heap()[0] = static_cast<unsigned char>('a' + group);
    EXPECT_EQ(result_of(rig, piece(file, 1, 0, true), group), 0);
  }
  for (std::uint32_t group = 0; group < 2; ++group) {
    rig.heap()[0] = static_cast<unsigned char>('A' + group);
    EXPECT_EQ(result_of(rig, piece(file, 1, 1, false), group), 2);
  }
  EXPECT_EQ(contents(), "oldaAbB");
}

// A close waits for calls on the file, and pieces are none.
TEST_F(KeptPiecesTest, DoNotKeepTheFileOpen) {
  EXPECT_EQ(send("one,", 0, true, file), 0);
  EXPECT_EQ(rig.calls(0).close(file), 0);
  EXPECT_EQ(send("two", 4, false, file), -EBADF);
  EXPECT_EQ(contents(), "old");
}

}  // namespace
}  // namespace ferry::server
