// Any alignment, also with direct I/O.
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
  auto file = open(at("f"), O_RDWR);
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
      test::write_to(model, data, offset);
    } else {
      const std::size_t wanted = offset < model.size() ? std::min(bytes, model.size() - offset) : 0;
      ASSERT_EQ(driver->pread(file, memory, bytes, static_cast<std::int64_t>(offset)),
                static_cast<std::int64_t>(wanted));
      ASSERT_EQ(std::memcmp(memory, model.data() + std::min(offset, model.size()), wanted), 0);
    }
  }
  file.close();
  EXPECT_TRUE(same_bytes(read_file(path("f")), model));
}

// Pieces that share blocks and pages of the file, some suitable for direct I/O and some not, in
// flight at once and through two descriptors of the file.
TEST_P(Conformance, DisjointWritesInFlightAllArrive) {
  Random random;
  constexpr std::size_t bytes = 256 * 1024;
  const DrivenFile opened[] = {open(at("f"), O_RDWR | O_CREAT), open(at("f"), O_RDWR)};
  File* const files[] = {opened[0], opened[1]};
  const AlignedBytes memory(bytes);
  const AlignedBytes read_back(bytes);
  std::string model(bytes, '\0');
  for (std::uint64_t round = 0; round < scaled(100); ++round) {
    const std::string data = pattern(bytes, round + 1);
    std::memcpy(memory.data(), data.data(), bytes);
    std::vector<std::pair<std::size_t, std::size_t>> pieces;  // from, to
    for (std::size_t at = 0; at < bytes && pieces.size() < 60;) {
      const std::size_t step = random.one_in(3) ? 1 : 512;
      const std::size_t next = std::min(bytes, (at + 1 + random.below(10'000)) / step * step);
      if (next > at) pieces.emplace_back(std::exchange(at, next), next);
    }
    random.shuffle(pieces);
    test::Transfers writes;
    for (const auto& [from, to] : pieces) {
      model.replace(from, to - from, data, from, to - from);
      driver->queue().submit(writes.emplace_back(Kind::write, files[writes.size() % 2],
                                                 memory.data() + from, to - from,
                                                 static_cast<std::int64_t>(from)));
      if (random.one_in(4)) driver->queue().flush();
    }
    driver->queue().flush();
    for (std::size_t i = 0; i < writes.size(); ++i) {
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
}

}  // namespace
}  // namespace ferry::storage
