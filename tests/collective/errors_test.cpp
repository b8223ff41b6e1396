// A failure on one rank is thrown on all, and none waits for ever.
#include "collective/world.hpp"
#include "support/failing_storage.hpp"

namespace ferry::collective {
namespace {

using namespace test;

constexpr Method through_writers[] = {Method::serial, Method::aggregate};
Options small_buffers(Method method, int writers = 1) {
  return test::options_of(method, writers, 10'000);
}

void open_and_close(const std::string& path, int flags) {
  File(MPI_COMM_WORLD, path, flags).close();
}

TEST(Errors, OpeningFailsOnAllRanks) {
  const SharedDirectory directory;
  struct Opening {
    const char* name;
    int flags;
    int error;
  };
  for (const Opening& one :
       {Opening{"missing", O_RDWR, ENOENT}, Opening{"no/file", O_CREAT | O_RDWR, ENOENT},
        Opening{"a", O_CREAT | O_RDWR | O_APPEND, EINVAL},
        Opening{"b", O_CREAT | O_EXCL | O_RDWR, 0},
        Opening{"b", O_CREAT | O_EXCL | O_RDWR, EEXIST}})
    EXPECT_EQ(error_of([&] { open_and_close(directory / one.name, one.flags); }), one.error)
        << one.name;
}

TEST(Errors, AFullDeviceIsToldToAllRanks) {
  for (const Method method : own_methods) {
    File file(MPI_COMM_WORLD, "/dev/full", O_RDWR, small_buffers(method, 2));
    const std::string mine = pattern(50'000, 1);
    for (int again = 0; again < 2; ++again)
      EXPECT_EQ(error_of([&] { file.write_at_all(rank() * 50'000, bytes_of(mine)); }), ENOSPC)
          << name_of(method);
    // Only the last rank has anything to write.
    const std::size_t bytes = rank() == ranks() - 1 ? 1000 : 0;
    EXPECT_EQ(error_of([&] { file.write_at_all(0, bytes_of(mine).first(bytes)); }), ENOSPC);
    file.close();
  }
}

TEST(Errors, ADiskThatFillsUpOnTheWayIsToldToAllRanks) {
  // Only rank 0, the only writer, sees and needs the mount.
  std::unique_ptr<OwnMount> disk;
  std::string path(300, '\0');
  if (rank() == 0) {
    disk = std::make_unique<OwnMount>("size=256k");
    if (*disk) path.replace(0, (*disk / "file").size(), *disk / "file");
  }
  world().broadcast(path.data(), static_cast<int>(path.size()));
  path.resize(path.find('\0'));
  if (path.empty()) GTEST_SKIP() << "rank 0 may not mount";
  for (const Method method : through_writers) {
    File file(MPI_COMM_WORLD, path, O_CREAT | O_RDWR | O_TRUNC, small_buffers(method));
    const std::string mine = pattern(400'000, static_cast<std::uint64_t>(rank()));
    EXPECT_EQ(error_of([&] { file.write_at_all(rank() * 400'000, bytes_of(mine)); }), ENOSPC);
    // With less it keeps working.
    file.resize(0);
    const std::string less = pattern(10'000, static_cast<std::uint64_t>(rank()));
    file.write_at_all(rank() * 10'000, bytes_of(less));
    expect_at(file, rank() * 10'000, less);
    file.close();
  }
}

TEST(Errors, WhatOneRankAsksWronglyIsRefusedToAll) {
  const SharedDirectory directory;
  File file(MPI_COMM_WORLD, directory / "file", O_CREAT | O_RDWR);
  const bool last = rank() == ranks() - 1;
  const std::string mine = pattern(100, 1);
  EXPECT_EQ(error_of([&] { file.write_at_all(last ? -1 : 0, bytes_of(mine)); }), EINVAL);
  EXPECT_EQ(error_of([&] { file.write_at_all(0, mine.data(), TypeMap(), last ? -1 : 100); }),
            EINVAL);
  const auto far = std::int64_t{1} << 62;
  EXPECT_EQ(error_of([&] { file.write_at_all(last ? far : 0, bytes_of(mine)); }), EOVERFLOW);
  const Extent extents[] = {{10, 1}, {0, 1}};
  const TypeMap backwards = TypeMap::list(extents);
  EXPECT_EQ(error_of([&] { file.set_view(0, last ? backwards : TypeMap()); }), EINVAL);
  EXPECT_EQ(error_of([&] { file.set_view(last ? -1 : 0, TypeMap()); }), EINVAL);
  file.set_view(0, last ? TypeMap::contiguous(0) : TypeMap());
  EXPECT_EQ(error_of([&] { file.write_at_all(0, bytes_of(mine)); }), EINVAL) << "a view of nothing";
  file.set_view(0, TypeMap());
  EXPECT_EQ(file.size_bytes(), 0) << "none of this wrote anything";
  file.close();
  EXPECT_EQ(error_of([&] { file.close(); }), EBADF);
  EXPECT_EQ(error_of([&] { file.write_at_all(0, bytes_of(mine)); }), EBADF);
}

TEST(Errors, AccessThatWasNotAskedForIsRefused) {
  const SharedDirectory directory;
  std::string mine = pattern(100, 1);
  {
    File file(MPI_COMM_WORLD, directory / "file", O_CREAT | O_WRONLY);
    EXPECT_EQ(error_of([&] { file.read_at_all(0, bytes_of(mine)); }), EBADF);
    EXPECT_EQ(error_of([&] { file.read_at(0, bytes_of(mine)); }), EBADF);
  }
  File file(MPI_COMM_WORLD, directory / "file", O_RDONLY);
  EXPECT_EQ(error_of([&] { file.write_all(bytes_of(mine)); }), EBADF);
  EXPECT_EQ(error_of([&] { file.write_at(0, bytes_of(mine)); }), EBADF);
  file.close();
}

TEST(Errors, NameTheRankAndTheFile) {
  const std::string said =
      failure_of([] { File(MPI_COMM_WORLD, "/missing/file", O_RDWR).close(); }).text;
  EXPECT_EQ(said, "opening /missing/file (rank 0): No such file or directory");
}

// Storage that fails, is slow and transfers too little, below the only writer.
TEST(Errors, FailingStorageNeitherHangsNorLies) {
  Random random;
  const std::uint64_t rounds = scaled(30);
  for (std::uint64_t i = 0; i < rounds; ++i) {
    const auto storage = std::make_shared<FailingStorage>(random.fork());
    storage->faults.short_writes = storage->faults.short_reads = 3;
    storage->faults.delays = 4;
    const Method method = random.pick(through_writers);
    File file(MPI_COMM_WORLD, "/file", O_CREAT | O_RDWR, small_buffers(method), storage);
    file.set_view(rank() * 300, TypeMap::strided(1, 300, 300 * ranks()));
    const std::string mine = pattern(30'000, random.bits() + static_cast<std::uint64_t>(rank()));
    storage->faults.writes = random.one_in(2) ? 20 : 0;
    const int failed = error_of([&] { file.write_at_all(0, bytes_of(mine)); });
    EXPECT_TRUE(failed == 0 || failed == EIO);
    std::int64_t agreed = failed;
    world().maximum(std::span(&agreed, 1));
    EXPECT_EQ(agreed, failed) << "the same on all ranks";
    storage->faults.writes = 0;
    file.write_at_all(0, bytes_of(mine));
    std::string got(mine.size(), '\0');
    storage->faults.reads = random.one_in(2) ? 20 : 0;
    if (error_of([&] { file.read_at_all(0, bytes_of(got)); }) == 0) {
      EXPECT_TRUE(same_bytes(got, mine));
    }
    storage->faults.stop();
    expect_at(file, 0, mine);
    storage->faults.syncs = 1;
    EXPECT_EQ(error_of([&] { file.sync(); }), EIO);
    storage->faults.stop();
    file.close();
  }
}

// What one rank wrote in vain may land over what others write now.
TEST(Errors, ALateChangeOfOneRankKeepsThoseOfAllOut) {
  const auto storage = std::make_shared<FailingStorage>(Random());
  File file(MPI_COMM_WORLD, "/file", O_CREAT | O_RDWR, small_buffers(Method::independent), storage);
  const std::string mine = pattern(100, static_cast<std::uint64_t>(rank()));
  file.write_at_all(0, bytes_of(mine));  // each rank opens it, in memory of its own
  const bool is_late = rank() == ranks() - 1;
  if (is_late) storage->late_change = -ETIMEDOUT;
  const std::string newer = pattern(100, 1000);
  EXPECT_EQ(error_of([&] { file.write_at_all(0, bytes_of(newer).first(is_late ? 0 : 100)); }),
            ETIMEDOUT);
  EXPECT_EQ(error_of([&] { file.iwrite_at_all(0, bytes_of(newer)).wait(); }), ETIMEDOUT);
  EXPECT_EQ(error_of([&] { file.resize(10); }), ETIMEDOUT);
  expect_at(file, 0, mine);
  storage->late_change = 0;
  file.write_at_all(0, bytes_of(newer));
  expect_at(file, 0, newer);
  file.close();
}

TEST(Errors, SayWhatTheStorageKnows) {
  const auto [error, said] =
      failure_of([] { File(MPI_COMM_WORLD, "ceph:/file?conf=/absent/ceph.conf", O_RDWR).close(); });
  if (error == ENOPKG) GTEST_SKIP() << "rank 0 has no libcephfs";
  EXPECT_TRUE(
      said.starts_with("opening ceph:/file?conf=/absent/ceph.conf: the Ceph cluster of "
                       "/absent/ceph.conf cannot be used: "))
      << said;
  EXPECT_TRUE(said.ends_with("by conf= (rank 0): Invalid argument")) << said;
}

}  // namespace
}  // namespace ferry::collective
