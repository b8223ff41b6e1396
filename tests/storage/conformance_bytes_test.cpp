// Bytes: where they go, of any alignment, and when others see them.
#include <atomic>
#include <cstring>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "storage/conformance.hpp"
#include "support/depth.hpp"
#include "support/files.hpp"

namespace ferry::storage {
namespace {

using test::Descriptor;
using test::pattern;
using test::Random;
using test::read_file;
using test::same_bytes;
using test::scaled;
using test::write_file;

constexpr std::int64_t gib = std::int64_t{1} << 30;

TEST_P(Conformance, MovesBytesOfAnySizeAtAnyOffset) {
  const auto file = open(at("f"), O_RDWR | O_CREAT);
  std::string model;
  std::uint64_t seed = 0;
  // In the registered arena, outside it, and unaligned in both.
  AlignedBytes outside(2 << 20);
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{1}, std::size_t{511}, std::size_t{512}, std::size_t{4095},
        std::size_t{4096}, std::size_t{4097}, std::size_t{65536}, std::size_t{1000003},
        std::size_t{1 << 20}}) {
    for (const int at : {0, 1, 512, 4096, 12288, 70001}) {
      const auto offset = static_cast<std::size_t>(at);
      for (char* memory : {arena.data(), arena.data() + 8192 + 3, outside.data(),
                           outside.data() + 512, outside.data() + 1}) {
        const std::string data = pattern(bytes, ++seed);
        std::memcpy(memory, data.data(), bytes);
        ASSERT_EQ(driver->pwrite(file, memory, bytes, at), std::ssize(data));
        test::write_to(model, data, offset);
        std::memset(memory, 0x5a, bytes);
        ASSERT_TRUE(driver->finds(file, data, memory, at))
            << bytes << " bytes at " << offset << ", memory at "
            << reinterpret_cast<std::uintptr_t>(memory) % 4096;
      }
    }
  }
  EXPECT_TRUE(same_bytes(read_file(path("f")), model));
}

// Also with direct I/O.
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

TEST_P(Conformance, IsShortOnlyAtTheEndOfTheFile) {
  constexpr std::int64_t size = 10'000;
  const std::string data = pattern(size, 1);
  write_file(path("f"), data);
  const auto file = open(at("f"), O_RDONLY);
  for (const std::int64_t offset : {0, 1, 4096, 8192, 9999, 10'000, 10'001, 12'288, 1'000'000}) {
    for (const int count : {1, 512, 4096, 8192, 65536}) {
      const auto bytes = static_cast<std::size_t>(count);
      std::memset(arena.data(), 0x5a, bytes + 1);
      const std::int64_t left = std::max<std::int64_t>(0, size - offset);
      const std::int64_t wanted = std::min<std::int64_t>(count, left);
      ASSERT_EQ(driver->pread(file, arena.data(), bytes, offset), wanted)
          << bytes << " at " << offset;
      if (wanted > 0) {
        const auto got = arena.view(0, static_cast<std::size_t>(wanted));
        ASSERT_TRUE(same_bytes(
            got, std::string_view(data).substr(static_cast<std::size_t>(offset), got.size())));
      }
    }
  }
}

TEST_P(Conformance, TransfersOfNothingSucceed) {
  write_file(path("f"), "abc");
  const auto file = open(at("f"), O_RDWR);
  EXPECT_EQ(driver->pread(file, arena.data(), 0, 0), 0);
  EXPECT_EQ(driver->pwrite(file, arena.data(), 0, 100'000), 0);
  EXPECT_EQ(driver->transfer(Kind::read, file, {}, 0), 0);
  EXPECT_EQ(driver->transfer(Kind::write, file, {}, 0), 0);
  EXPECT_EQ(driver->pread(file, nullptr, 0, 0), 0);
  EXPECT_EQ(read_file(path("f")), "abc");
}

TEST_P(Conformance, VectorsAreOneTransfer) {
  Random random;
  for (std::uint64_t round = 0; round < scaled(120); ++round) {
    const auto file = open(at("f"), O_RDWR | O_CREAT | O_TRUNC);
    const std::size_t counts[] = {1, 2, 3, 17, 1024};
    const std::size_t count = random.pick(counts);
    const std::size_t align = random.one_in(2) ? 4096 : 1;
    std::vector<iovec> vectors;
    std::string all;
    std::size_t at = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t limit = (arena.size() - at) / (count - i);
      std::size_t bytes = random.one_in(5) ? 0 : random.below(std::min<std::size_t>(limit, 30'000));
      bytes -= bytes % align;
      vectors.push_back(iovec{arena.data() + at, bytes});
      all += pattern(bytes, random.bits());
      at += (bytes + align - 1) / align * align;
    }
    // Backwards in memory half of the time.
    if (random.one_in(2)) std::reverse(vectors.begin(), vectors.end());
    std::size_t from = 0;
    for (const iovec& vector : vectors) {
      std::memcpy(vector.iov_base, all.data() + from, vector.iov_len);
      from += vector.iov_len;
    }
    const std::int64_t offset =
        random.one_in(2) ? 4096 : static_cast<std::int64_t>(random.below(9000));
    ASSERT_EQ(driver->transfer(Kind::write, file, vectors, offset),
              static_cast<std::int64_t>(all.size()));
    if (!all.empty()) {
      ASSERT_TRUE(read_file(path("f")) ==
                  std::string(static_cast<std::size_t>(offset), '\0') + all);
    }
    std::memset(arena.data(), 0x11, arena.size());
    ASSERT_EQ(driver->transfer(Kind::read, file, vectors, offset),
              static_cast<std::int64_t>(all.size()));
    from = 0;
    for (const iovec& vector : vectors) {
      ASSERT_EQ(std::memcmp(vector.iov_base, all.data() + from, vector.iov_len), 0);
      from += vector.iov_len;
    }
    // Across the end: the last bytes are missing, the others are there.
    std::memset(arena.data(), 0x11, arena.size());
    const std::int64_t beyond = offset + static_cast<std::int64_t>(all.size() / 2);
    ASSERT_EQ(driver->transfer(Kind::read, file, vectors, beyond),
              static_cast<std::int64_t>(all.size() - all.size() / 2));
  }
}

TEST_P(Conformance, HolesReadAsZeros) {
  const auto file = open(at("f"), O_RDWR | O_CREAT);
  ASSERT_EQ(write(file, "end", 3'000'000), 3);
  std::memset(arena.data(), 0x5a, 1 << 20);
  EXPECT_TRUE(finds(file, std::string(1 << 20, '\0'), 1 << 20));
  struct stat status {};
  ASSERT_EQ(stat(path("f").c_str(), &status), 0);
  EXPECT_EQ(status.st_size, 3'000'003);
  if (can.tells_holes) {
    EXPECT_LT(status.st_blocks * 512, 1'000'000) << "the hole was filled";
  }
}

TEST_P(Conformance, ReachesBeyondFourGiB) {
  const auto file = open(at("f"), O_RDWR | O_CREAT);
  for (const std::int64_t offset :
       {2 * gib - 4096, 2 * gib, 4 * gib - 4096, 4 * gib, 5 * gib + 1, 100 * gib})
    ASSERT_EQ(write(file, pattern(8192, static_cast<std::uint64_t>(offset)), offset), 8192);
  for (const std::int64_t offset : {2 * gib, 4 * gib, 5 * gib + 1, 100 * gib})
    EXPECT_TRUE(finds(file, pattern(8192, static_cast<std::uint64_t>(offset)), offset)) << offset;
  Status status;
  ASSERT_EQ(driver->file_status(file, status), 0);
  EXPECT_EQ(status.size_bytes, static_cast<std::uint64_t>(100 * gib + 8192));
}

// The result of one read must not depend on which parts the kernel's page cache has.
TEST_P(Conformance, ReadsAcrossWhatIsCachedAndWhatIsNot) {
  constexpr std::size_t size = 2 << 20;
  const std::string data = pattern(size, 3);
  write_file(path("f"), data);
  const Descriptor fd(::open(path("f").c_str(), O_RDWR));
  ASSERT_EQ(fsync(fd), 0);
  const auto file = open(at("f"), O_RDONLY);
  Random random;
  for (std::uint64_t round = 0; round < scaled(60); ++round) {
    for (int i = 0; i < 4; ++i) {
      const auto from = static_cast<off_t>(random.below(size / 4096) * 4096);
      const auto bytes = static_cast<off_t>(random.between(1, 64) * 4096);
      ASSERT_EQ(posix_fadvise(fd, from, bytes, POSIX_FADV_DONTNEED), 0);
    }
    const std::size_t offset = random.below(size);
    const std::size_t bytes = random.between(1, size);
    const std::size_t wanted = std::min(bytes, size - offset);
    std::memset(arena.data(), 0x5a, wanted);
    ASSERT_EQ(driver->pread(file, arena.data(), bytes, static_cast<std::int64_t>(offset)),
              static_cast<std::int64_t>(wanted));
    ASSERT_EQ(std::memcmp(arena.data(), data.data() + offset, wanted), 0)
        << bytes << " at " << offset;
  }
}

TEST_P(Conformance, AppendsAtTheEndAndTellsWhere) {
  write_file(path("f"), "12345");
  const auto file = open(at("f"), O_RDWR | O_APPEND);
  std::uint64_t value = 0;
  std::string model = "12345";
  for (const int count : {1, 100, 4096, 0, 70'000}) {
    const auto bytes = static_cast<std::size_t>(count);
    const std::string data = pattern(bytes, bytes);
    std::memcpy(arena.data(), data.data(), bytes);
    ASSERT_EQ(driver->append(file, arena.data(), bytes, value), static_cast<std::int64_t>(bytes));
    model += data;
    if (bytes > 0) {
      EXPECT_EQ(value, model.size());
    }
    // Another writer's bytes in between.
    const Descriptor other(::open(path("f").c_str(), O_WRONLY));
    ASSERT_EQ(::pwrite(other, "x", 1, static_cast<off_t>(model.size())), 1);
    model += 'x';
  }
  EXPECT_TRUE(same_bytes(read_file(path("f")), model));
}

// Of one process, as a runtime and bulk transfers are. A server has no appends of one step.
TEST_P(Conformance, AppendsByTwoStoragesAllArrive) {
  write_file(path("f"), "");
  const std::unique_ptr<Storage> storages[] = {make_another_storage(), make_another_storage()};
  constexpr std::size_t record = 100;
  const std::uint64_t rounds = test::scaled(100);
  std::atomic<int> opened = 0;
  test::at_once("appends by two storages", 2, [&](std::uint64_t index) {
    StorageDriver own(*storages[index]);
    File* const file = own.must_open(at("f"), O_WRONLY | O_APPEND);
    std::uint64_t end = 0;
    for (++opened; opened < 2;)
      std::this_thread::yield();
    for (std::uint64_t round = 0; round < rounds; ++round) {
      const std::string data = pattern(record, index * 100'000 + round);
      ASSERT_EQ(own.append(file, data.data(), record, end), std::int64_t{record});
    }
    ASSERT_EQ(own.close(file), 0);
  });
  const std::string all = read_file(path("f"));
  EXPECT_EQ(all.size(), 2 * rounds * record);
  std::set<std::string> records;
  for (std::size_t at = 0; at < all.size(); at += record)
    records.insert(all.substr(at, record));
  EXPECT_EQ(records.size(), 2 * rounds) << "some were overwritten";
}

// As on Linux; the length of the file is no multiple of anything.
TEST_P(Conformance, OffsetsOfWritesToAnAppendingFileDoNotCount) {
  for (const std::string& before : {std::string(), std::string("12345"), pattern(4096, 1)}) {
    write_file(path("f"), before);
    auto file = open(at("f"), O_RDWR | O_APPEND);
    const std::string data = pattern(8192, 7);
    EXPECT_EQ(write(file, data.substr(0, 4096)), 4096) << before.size();
    EXPECT_EQ(write(file, data.substr(4096), 40'960), 4096);
    file.close();
    EXPECT_TRUE(same_bytes(read_file(path("f")), before + data)) << before.size();
  }
}

TEST_P(Conformance, SeesWhatOtherDescriptorsWrote) {
  const auto file = open(at("f"), O_RDWR | O_CREAT);
  const Descriptor other(::open(path("f").c_str(), O_RDWR));
  for (std::uint64_t i = 1; i < 20; ++i) {
    const std::string ours = pattern(4096, i);
    ASSERT_EQ(write(file, ours), 4096);
    std::string seen(4096, '\0');
    ASSERT_EQ(::pread(other, seen.data(), 4096, 0), 4096);
    ASSERT_TRUE(seen == ours);
    const std::string theirs = pattern(5000, 1000 + i);
    ASSERT_EQ(::pwrite(other, theirs.data(), 5000, 100), 5000);
    ASSERT_EQ(driver->pread(file, arena.data(), 8192, 0), 5100);
    ASSERT_TRUE(same_bytes(arena.view(100, 5000), theirs));
  }
}

TEST_P(Conformance, SeesTheSizeThatAnotherClientMakes) {
  const auto file = open(at("f"), O_RDWR | O_CREAT);
  const auto size_now = [&] {
    Status status;
    return driver->file_status(file, status) == 0 ? static_cast<std::int64_t>(status.size_bytes)
                                                  : -1;
  };
  const std::string data = pattern(8192, 1);
  ASSERT_EQ(write(file, data.substr(0, 4096)), 4096);
  ASSERT_EQ(size_now(), 4096);
  const auto other = must_open(at_other_client("f"), O_RDWR);
  ASSERT_EQ(write(other, data.substr(4096), 12'288), 4096);
  EXPECT_EQ(size_now(), 16'384);
  std::memset(arena.data(), 0x5a, 16'384);
  EXPECT_EQ(driver->pread(file, arena.data(), 65'536, 0), 16'384);
  EXPECT_TRUE(same_bytes(arena.view(0, 16'384),
                         data.substr(0, 4096) + std::string(8192, '\0') + data.substr(4096)));
  EXPECT_EQ(driver->pread(file, arena.data(), 4096, 16'384), 0);
  EXPECT_EQ(driver->simple(Kind::truncate, other, 100), 0);
  EXPECT_EQ(size_now(), 100);
  EXPECT_EQ(driver->pread(file, arena.data(), 4096, 0), 100);
}

// Neither overwrites the other's data, and both find all of it.
TEST_P(Conformance, TwoClientsWriteOneFile) {
  const std::int64_t piece = GetParam().direct ? 8192 : 5000;  // past the cache in whole blocks
  constexpr std::int64_t pieces = 100;
  const auto bytes = static_cast<std::size_t>(piece);
  const std::string data = pattern(bytes * pieces, 1);
  EXPECT_EQ(driver->try_open(at("f"), flags(O_RDWR | O_CREAT)), 0);
  const auto write_every_other = [&](const std::string& name, std::int64_t first) {
    const std::unique_ptr<Storage> own = make_another_storage();
    const AlignedBytes memory(data.size());
    StorageDriver client(*own);
    File* file = client.must_open(name, flags(O_RDWR));
    std::memcpy(memory.data(), data.data(), data.size());
    for (std::int64_t at = first * piece; at < pieces * piece; at += 2 * piece)
      EXPECT_EQ(client.pwrite(file, memory.data() + at, bytes, at), piece) << name << ' ' << at;
    EXPECT_EQ(client.simple(Kind::sync, file), 0) << name;
    EXPECT_EQ(client.close(file), 0) << name;
  };
  std::thread other([&] { write_every_other(at_other_client("f"), 1); });
  write_every_other(at("f"), 0);
  other.join();
  for (const std::string& name : {at("f"), at_other_client("f")}) {
    std::memset(arena.data(), 0x5a, data.size());
    const auto file = must_open(name, O_RDONLY);
    EXPECT_TRUE(finds(file, data)) << name;
  }
}

TEST_P(Conformance, ManyInFlightEachComeBackOnce) {
  constexpr std::size_t piece = 8192;
  constexpr std::size_t pieces = 256;
  const std::string data = pattern(piece * pieces, 5);
  auto file = open(at("f"), O_RDWR | O_CREAT);
  Random random;
  std::vector<std::size_t> order(pieces);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::memcpy(arena.data(), data.data(), data.size());
  for (const Kind kind : {Kind::write, Kind::read}) {
    random.shuffle(order);
    test::Transfers transfers;
    std::set<const Operation*> in_flight;
    std::size_t finished = 0;
    while (finished < pieces) {
      // At most 64 in flight, submitted in bunches.
      std::size_t bunch = random.between(0, 20);
      for (; bunch > 0 && transfers.size() < pieces && in_flight.size() < 64; --bunch) {
        const std::size_t at = order[transfers.size()] * piece;
        transfers.emplace_back(kind, file, arena.data() + at, piece, static_cast<std::int64_t>(at));
        in_flight.insert(&transfers.back());
        driver->queue().submit(transfers.back());
      }
      driver->queue().flush();
      if (in_flight.empty()) continue;
      const Operation& next = driver->next();
      ASSERT_EQ(in_flight.erase(&next), 1U);
      ASSERT_EQ(next.result, static_cast<std::int64_t>(piece));
      ++finished;
    }
    EXPECT_EQ(driver->queue().reap(), nullptr);
    if (kind == Kind::write) std::memset(arena.data(), 0, data.size());
  }
  EXPECT_EQ(std::memcmp(arena.data(), data.data(), data.size()), 0);
  file.close();
  EXPECT_TRUE(same_bytes(read_file(path("f")), data));
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
