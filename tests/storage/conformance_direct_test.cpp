// Any alignment, also with direct I/O.
#include <cerrno>
#include <cstring>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>

#include "storage/conformance.hpp"
#include "support/depth.hpp"
#include "support/files.hpp"

namespace ferry::storage {
namespace {

using test::pattern;
using test::Random;
using test::read_file;
using test::same_bytes;
using test::scaled;
using test::write_file;

TEST_P(Conformance, TakesAnyAlignment) {
  Random random;
  std::string model = pattern(200'000, 1);
  write_file(path("f"), model);
  File* file = open(at("f"), O_RDWR);
  const std::uint64_t steps[] = {1, 512, 4096};
  for (std::uint64_t round = 0; round < scaled(600); ++round) {
    const std::uint64_t step = random.pick(steps);
    const std::size_t offset = random.below(250'000) / step * step;
    const std::size_t bytes = random.below(60'000) / step * step;
    char* memory = arena.data() + random.below(10'000) / step * step;
    if (random.one_in(2)) {
      const std::string data = pattern(bytes, random.bits());
      std::memcpy(memory, data.data(), bytes);
      ASSERT_EQ(driver->pwrite(file, memory, bytes, static_cast<std::int64_t>(offset)),
                static_cast<std::int64_t>(bytes));
      if (bytes > 0 && model.size() < offset + bytes) model.resize(offset + bytes);
      if (bytes > 0) model.replace(offset, bytes, data);
    } else {
      const std::size_t wanted = offset < model.size() ? std::min(bytes, model.size() - offset) : 0;
      ASSERT_EQ(driver->pread(file, memory, bytes, static_cast<std::int64_t>(offset)),
                static_cast<std::int64_t>(wanted));
      ASSERT_EQ(std::memcmp(memory, model.data() + std::min(offset, model.size()), wanted), 0);
    }
  }
  EXPECT_EQ(driver->close(file), 0);
  EXPECT_TRUE(same_bytes(read_file(path("f")), model));
}

// Pieces that share blocks and pages of the file, some suitable for direct I/O and some not, in
// flight at once and through two descriptors of the file.
TEST_P(Conformance, DisjointWritesInFlightAllArrive) {
  Random random;
  constexpr std::size_t bytes = 256 * 1024;
  File* files[] = {open(at("f"), O_RDWR | O_CREAT), open(at("f"), O_RDWR)};
  const AlignedBytes memory(bytes);
  const AlignedBytes read_back(bytes);
  std::string model(bytes, '\0');
  for (std::uint64_t round = 0; round < scaled(100); ++round) {
    const std::string data = pattern(bytes, round + 1);
    std::memcpy(memory.data(), data.data(), bytes);
    std::vector<iovec> vectors;
    for (std::size_t at = 0; at < bytes && vectors.size() < 60;) {
      const std::size_t step = random.one_in(3) ? 1 : 512;
      const std::size_t next = std::min(bytes, (at + 1 + random.below(10'000)) / step * step);
      if (next <= at) continue;
      vectors.push_back(iovec{memory.data() + at, next - at});
      at = next;
    }
    random.shuffle(vectors);
    std::vector<Operation> operations(vectors.size());
    for (std::size_t i = 0; i < vectors.size(); ++i) {
      const auto at = static_cast<std::size_t>(static_cast<char*>(vectors[i].iov_base) -
                                               static_cast<char*>(memory.data()));
      model.replace(at, vectors[i].iov_len, data, at, vectors[i].iov_len);
      operations[i].kind = Kind::write;
      operations[i].file = files[i % 2];
      operations[i].offset = static_cast<std::int64_t>(at);
      operations[i].vectors = {&vectors[i], 1};
      driver->queue().submit(operations[i]);
      if (random.one_in(4)) driver->queue().flush();
    }
    driver->queue().flush();
    for (std::size_t i = 0; i < operations.size(); ++i) {
      const Operation& done = driver->next();
      EXPECT_GT(done.result, 0) << "at " << done.offset;
    }
    // Not by the mount: ceph-fuse 16.2 was seen to wait for ever for a file that another client has
    // just written with many parallel calls.
    const std::int64_t got = driver->pread(files[0], read_back.data(), bytes, 0);
    ASSERT_GT(got, 0);
    const auto size = static_cast<std::size_t>(got);
    ASSERT_TRUE(same_bytes(read_back.view(0, size), model.substr(0, size))) << "round " << round;
    ASSERT_EQ(driver->simple(Kind::sync, files[round % 2]), 0) << "round " << round;
  }
  for (File* file : files)
    EXPECT_EQ(driver->close(file), 0);
}

}  // namespace
}  // namespace ferry::storage
