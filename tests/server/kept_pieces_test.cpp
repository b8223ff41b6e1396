// Writes in pieces, from well-behaved programs and others.
#include "server/kept_pieces.hpp"

#include <cerrno>
#include <cstring>
#include <memory>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>

#include "support/files.hpp"
#include "support/server_rig.hpp"

namespace ferry::server {
namespace {

using device::Opcode;
using device::Request;

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
    return send(piece(to, bytes.size(), kept, more));
  }
  Request piece(int to, std::uint64_t bytes, std::uint64_t kept, bool more) {
    const std::uint64_t buffer = rig.arena.view().offset_of(rig.heap());
    Request request = test::request_of(Opcode::write, to, buffer, bytes);
    request.flags = more ? device::flag_append | device::flag_more : device::flag_append;
    request.kept = kept;
    return request;
  }
  std::int64_t send(Request request, std::uint32_t group = 0) {
    device::Requester requester(rig.arena.context(), group);
    return requester.call(request).result;
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
  EXPECT_EQ(send(outside), -EFAULT);
}

TEST_F(KeptPiecesTest, OfEachGroupAreItsOwn) {
  for (std::uint32_t group = 0; group < 2; ++group) {
    rig.heap()[0] = static_cast<unsigned char>('a' + group);
    EXPECT_EQ(send(piece(file, 1, 0, true), group), 0);
  }
  for (std::uint32_t group = 0; group < 2; ++group) {
    rig.heap()[0] = static_cast<unsigned char>('A' + group);
    EXPECT_EQ(send(piece(file, 1, 1, false), group), 2);
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
