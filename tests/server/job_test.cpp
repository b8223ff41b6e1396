// Validation: refused requests, their errno, and that nothing is held or touched then.
#include "server/job.hpp"

#include <cerrno>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <ferry/device/file_calls.hpp>

#include "support/depth.hpp"
#include "support/hooks.hpp"

namespace ferry::server {
namespace {

using device::BufferExtent;
using device::Opcode;
using storage::Kind;

constexpr auto u64_max = std::numeric_limits<std::uint64_t>::max();
constexpr auto i64_max = std::numeric_limits<std::int64_t>::max();
constexpr auto i64_min = std::numeric_limits<std::int64_t>::min();

struct SomeFile final : storage::File {};

class Validation : public testing::Test {
 protected:
  Validation() : arena({.files = 8}, 64 * 1024), heap(arena.view().layout.heap) {
    std::unique_ptr<storage::File> file = std::make_unique<SomeFile>();
    open_file = file.get();
    handle = files.insert(file);
    file = std::make_unique<SomeFile>();
    closed = files.insert(file);
    EXPECT_TRUE(files.begin_close(closed));
    delete files.finish_close(closed);
  }
  ~Validation() override {
    EXPECT_TRUE(files.begin_close(handle));
    EXPECT_TRUE(files.unused(handle)) << "a refused request still holds its file";
    delete files.finish_close(handle);
  }
  std::uint64_t size() const { return arena.view().layout.geometry.arena_bytes; }

  device::Request request(Opcode opcode) const {
    device::Request made = test::request_of(opcode, handle, heap, 4096);
    made.cell = 1;
    made.sequence = 1;
    return made;
  }
  device::Request request(Opcode opcode, std::uint64_t buffer, std::uint64_t length) const {
    device::Request made = request(opcode);
    made.buffer = buffer;
    made.length = length;
    return made;
  }
  // Refused, and the file let go.
  int check(const device::Request& asked) {
    job.request = asked;
    const int error = validate(job, arena.view(), files);
    if (error != 0) {
      EXPECT_FALSE(job.holds_file);
    } else if (job.holds_file) {
      files.release(job.request.file);
      job.holds_file = false;
    }
    return error;
  }
  void put(std::uint64_t offset, const void* bytes, std::size_t count) {
    std::memcpy(arena.view().base + offset, bytes, count);
  }
  int check_extents(Opcode opcode, const std::vector<BufferExtent>& extents, std::uint64_t at,
                    std::int64_t offset = 0) {
    put(at, extents.data(), extents.size() * sizeof(BufferExtent));
    device::Request asked = request(opcode, at, extents.size());
    asked.offset = offset;
    return check(asked);
  }
  int check_path(Opcode opcode, const std::string& bytes, std::uint64_t at) {
    put(at, bytes.data(), bytes.size());
    return check(request(opcode, at, bytes.size()));
  }

  test::TestArena arena;
  const std::uint64_t heap;
  FileTable files{8};
  storage::File* open_file = nullptr;
  std::int32_t handle = 0;
  std::int32_t closed = 0;
  Job job;
};

TEST_F(Validation, TranslatesATransfer) {
  device::Request asked = request(Opcode::read);
  asked.offset = 5'000'000'000;
  ASSERT_EQ(check(asked), 0);
  EXPECT_EQ(job.kind, Kind::read);
  EXPECT_EQ(job.file, open_file);
  EXPECT_EQ(job.offset, 5'000'000'000);
  ASSERT_EQ(job.vectors.size(), 1U);
  EXPECT_EQ(job.vectors[0].iov_base, arena.heap());
  EXPECT_EQ(job.vectors[0].iov_len, 4096U);
  ASSERT_EQ(check(request(Opcode::write)), 0);
  EXPECT_EQ(job.kind, Kind::write);
  asked = request(Opcode::write);
  asked.flags = device::flag_append;
  ASSERT_EQ(check(asked), 0);
  EXPECT_EQ(job.kind, Kind::append);
}

TEST_F(Validation, PassesTheHintOfASyncOn) {
  for (const Opcode opcode : {Opcode::write, Opcode::write_vector}) {
    device::Request asked = request(opcode);
    if (opcode == Opcode::write_vector) asked.length = 0;
    asked.flags = device::flag_sync_follows;
    ASSERT_EQ(check(asked), 0);
    EXPECT_EQ(job.kind, Kind::write);
    EXPECT_TRUE(job.sync_follows);
    asked.flags = 0;
    ASSERT_EQ(check(asked), 0);
    EXPECT_FALSE(job.sync_follows) << "a job is used again";
  }
}

TEST_F(Validation, KnowsEveryOpcode) {
  const std::pair<Opcode, Kind> kinds[] = {{Opcode::close, Kind::close},
                                           {Opcode::sync, Kind::sync},
                                           {Opcode::sync_data, Kind::sync_data},
                                           {Opcode::truncate, Kind::truncate},
                                           {Opcode::file_status, Kind::file_status}};
  for (const auto& [opcode, kind] : kinds) {
    EXPECT_EQ(check(request(opcode)), 0);
    EXPECT_EQ(job.kind, kind);
  }
}

TEST_F(Validation, RefusesUnknownOpcodes) {
  for (int opcode = static_cast<int>(Opcode::unlink) + 1; opcode < 256; ++opcode) {
    device::Request asked = request(static_cast<Opcode>(opcode));
    EXPECT_EQ(check(asked), -EINVAL) << opcode;
    asked.file = -1;
    EXPECT_EQ(check(asked), -EINVAL) << opcode;
  }
}

TEST_F(Validation, RefusesHandlesThatNameNoOpenFile) {
  for (const Opcode opcode :
       {Opcode::read, Opcode::write, Opcode::read_vector, Opcode::write_vector, Opcode::sync,
        Opcode::sync_data, Opcode::truncate, Opcode::file_status}) {
    for (const std::int32_t wrong :
         {0, -1, closed, handle + 0x10000, handle + 7, 0x10000 + 8, 0x1ffff, 7, -handle,
          std::numeric_limits<std::int32_t>::max(), std::numeric_limits<std::int32_t>::min()}) {
      device::Request asked = request(opcode);
      asked.file = wrong;
      EXPECT_EQ(check(asked), -EBADF) << static_cast<int>(opcode) << " on " << wrong;
    }
  }
}

TEST_F(Validation, RefusesBuffersThatReachOutOfTheArena) {
  using Range = std::pair<std::uint64_t, std::uint64_t>;
  for (const Opcode opcode : {Opcode::read, Opcode::write}) {
    for (const auto& [buffer, length] :
         {Range{size(), 1}, Range{size() - 1, 2}, Range{size() + 1, 0}, Range{u64_max, 0},
          Range{u64_max, 1}, Range{u64_max - 10, 20}, Range{heap, u64_max},
          Range{heap, u64_max - heap + 1}, Range{heap, u64_max - heap + 2}, Range{heap, size()},
          Range{std::uint64_t{1} << 63, 4096}, Range{heap, std::uint64_t{1} << 63}}) {
      EXPECT_EQ(check(request(opcode, buffer, length)), -EFAULT) << buffer << " + " << length;
    }
  }
  EXPECT_EQ(check(request(Opcode::read, size() - 4096, 4096)), 0);
  EXPECT_EQ(check(request(Opcode::read, size(), 0)), 0);
}

// A stray buffer in the control block would overwrite rings and cells.
TEST_F(Validation, RefusesBuffersInTheControlBlock) {
  const device::Control& layout = arena.view().layout;
  for (const std::uint64_t at :
       {std::uint64_t{0}, layout.loop_states, layout.doorbells, layout.tickets, layout.heads,
        layout.slots, layout.cells, layout.positions, layout.groups, layout.scratch - 4096}) {
    EXPECT_EQ(check(request(Opcode::read, at, 4096)), -EFAULT) << at;
    EXPECT_EQ(check(request(Opcode::file_status, at, 4096)), -EFAULT) << at;
    EXPECT_EQ(
        check_extents(Opcode::read_vector, {BufferExtent{heap, 64}, BufferExtent{at, 64}}, heap),
        -EFAULT)
        << at;
  }
}

TEST_F(Validation, RefusesOffsetsThatAreNone) {
  using Range = std::pair<std::int64_t, std::uint64_t>;
  const auto check_at = [this](Opcode opcode, std::int64_t offset, std::uint64_t length) {
    device::Request asked = request(opcode, heap, length);
    asked.offset = offset;
    return check(asked);
  };
  for (const Opcode opcode : {Opcode::read, Opcode::write}) {
    for (const auto& [offset, length] :
         {Range{-1, 10}, Range{i64_min, 10}, Range{-1, 0}, Range{i64_max, 1},
          Range{i64_max - 9, 10 + 1}, Range{i64_max - 4095, 4096 + 1}})
      EXPECT_EQ(check_at(opcode, offset, length), -EINVAL) << offset << " + " << length;
    EXPECT_EQ(check_at(opcode, i64_max - 4096, 4096), 0);
    EXPECT_EQ(check_at(opcode, i64_max, 0), 0);
  }
  for (const std::int64_t offset : {std::int64_t{-1}, i64_min})
    EXPECT_EQ(check_at(Opcode::truncate, offset, 4096), -EINVAL);
}

TEST_F(Validation, TranslatesExtents) {
  const std::vector<BufferExtent> extents = {
      {heap + 100, 50}, {heap, 0}, {size() - 7, 7}, {size(), 0}};
  ASSERT_EQ(check_extents(Opcode::write_vector, extents, heap + 4096, 77), 0);
  EXPECT_EQ(job.kind, Kind::write);
  EXPECT_EQ(job.offset, 77);
  ASSERT_EQ(job.vectors.size(), 4U);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(job.vectors[i].iov_base, arena.view().base + extents[i].buffer);
    EXPECT_EQ(job.vectors[i].iov_len, extents[i].length);
  }
  EXPECT_EQ(check_extents(Opcode::read_vector,
                          std::vector<BufferExtent>(1024, BufferExtent{heap, 1}), heap),
            0);
  EXPECT_EQ(check_extents(Opcode::read_vector, {}, heap), 0);
}

TEST_F(Validation, ExtentsAreCopiedBeforeTheyAreLookedAt) {
  ASSERT_EQ(check_extents(Opcode::read_vector, {{heap + 64, 10}}, heap), 0);
  const BufferExtent evil{u64_max, u64_max};
  put(heap, &evil, sizeof evil);
  EXPECT_EQ(job.vectors[0].iov_base, arena.heap() + 64);
  EXPECT_EQ(job.vectors[0].iov_len, 10U);
}

TEST_F(Validation, RefusesBadExtents) {
  for (const Opcode opcode : {Opcode::read_vector, Opcode::write_vector}) {
    // Their positions.
    EXPECT_EQ(check_extents(opcode, {{heap, 1}}, heap + 4), -EFAULT) << "unaligned";
    for (const std::uint64_t at : {size(), size() - 8, u64_max, u64_max - 15, u64_max - 7})
      EXPECT_EQ(check(request(opcode, at, 1)), -EFAULT) << at;
    // How many.
    for (const std::uint64_t count : {std::uint64_t{1025}, std::uint64_t{1} << 60, u64_max})
      EXPECT_EQ(check(request(opcode, heap, count)), -EINVAL) << count;
    EXPECT_EQ(check(request(opcode, size() - 1024, 65)), -EFAULT) << "the last one lies outside";
    // What they name.
    for (const BufferExtent& bad :
         {BufferExtent{size(), 1}, BufferExtent{size() - 1, 2}, BufferExtent{heap, size()},
          BufferExtent{heap, u64_max}, BufferExtent{u64_max, 1}, BufferExtent{u64_max - 5, 10},
          BufferExtent{0, u64_max}}) {
      EXPECT_EQ(check_extents(opcode, {{heap, 8}, bad, {heap, 8}}, heap), -EFAULT)
          << bad.buffer << " + " << bad.length;
    }
    // Where they go in the file.
    EXPECT_EQ(check_extents(opcode, {{heap, 8}, {heap, 8}}, heap, -1), -EINVAL);
    EXPECT_EQ(check_extents(opcode, {{heap, 8}, {heap, 8}}, heap, i64_max - 15), -EINVAL);
    EXPECT_EQ(check_extents(opcode, {{heap, 8}, {heap, 8}}, heap, i64_max - 16), 0);
  }
}

TEST_F(Validation, CopiesPaths) {
  const std::string path("/some/path\0", 11);
  for (const auto& [opcode, kind] :
       {std::pair{Opcode::open, Kind::open}, std::pair{Opcode::unlink, Kind::unlink},
        std::pair{Opcode::path_status, Kind::path_status}}) {
    ASSERT_EQ(check_path(opcode, path, heap), 0);
    EXPECT_EQ(job.kind, kind);
    EXPECT_STREQ(job.path, "/some/path");
    put(heap, "/evil", 5);
    EXPECT_STREQ(job.path, "/some/path") << "still looks at shared memory";
  }
  device::Request asked = request(Opcode::open);
  put(heap, "/x", 3);
  asked.length = 3;
  asked.argument = 02102;
  asked.mode = 0640;
  asked.file = -9;
  ASSERT_EQ(check(asked), 0);
  EXPECT_EQ(job.flags, 02102);
  EXPECT_EQ(job.mode, 0640U);
}

TEST_F(Validation, RefusesBadPaths) {
  for (const Opcode opcode : {Opcode::open, Opcode::unlink, Opcode::path_status}) {
    // Too long, and nothing.
    std::string path(4096, 'p');
    path.back() = '\0';
    EXPECT_EQ(check_path(opcode, path, heap), 0);
    for (const std::uint64_t length : {std::uint64_t{0}, std::uint64_t{4097}, u64_max})
      EXPECT_LT(check(request(opcode, heap, length)), 0) << length;
    // Outside.
    for (const std::uint64_t at : {size(), size() - 9, u64_max, u64_max - 5})
      EXPECT_EQ(check(request(opcode, at, 10)), -EFAULT) << at;
  }
}

// Cut off it would name another file.
TEST_F(Validation, RefusesAPathWithoutItsZero) {
  for (const Opcode opcode : {Opcode::open, Opcode::unlink, Opcode::path_status}) {
    EXPECT_LT(check_path(opcode, "/data/file-12", heap), 0) << "taken as " << job.path;
  }
}

TEST_F(Validation, RefusesAStatusThatDoesNotFit) {
  constexpr std::uint64_t bytes = sizeof(device::FileStatus);
  for (const std::uint64_t at : {size() - bytes + 1, size(), u64_max, u64_max - bytes + 1})
    EXPECT_EQ(check(request(Opcode::file_status, at, 4096)), -EFAULT) << at;
  EXPECT_EQ(check(request(Opcode::file_status, size() - bytes, 4096)), 0);
  // The path itself would fit.
  put(size() - 4, "/ab", 4);
  EXPECT_EQ(check(request(Opcode::path_status, size() - 4, 4)), -EFAULT);
}

// For any request, the storage only gets addresses inside the arena.
TEST_F(Validation, LetsNothingThroughThatReachesOut) {
  test::Random random;
  const auto* base = arena.view().base;
  const std::uint64_t interesting[] = {0,
                                       1,
                                       7,
                                       8,
                                       4096,
                                       heap,
                                       size(),
                                       size() - 1,
                                       size() - 64,
                                       u64_max,
                                       u64_max - 4096,
                                       1ULL << 63,
                                       (1ULL << 63) - 1};
  const auto number = [&] {
    const std::uint64_t near = random.pick(interesting) + random.below(40) - 20;
    return random.one_in(4) ? random.below(size()) : near;
  };
  std::uint64_t accepted = 0;
  for (std::uint64_t round = 0; round < test::scaled(300'000); ++round) {
    for (std::uint64_t i = 0; i < 8; ++i) {
      const BufferExtent extent{number(), number()};
      put(heap + i * 16, &extent, sizeof extent);
    }
    device::Request asked{};
    asked.opcode = static_cast<Opcode>(random.below(16));
    if (asked.opcode == Opcode::nop) continue;
    asked.flags = static_cast<std::uint8_t>(random.bits());
    asked.file = random.one_in(3) ? static_cast<std::int32_t>(random.bits()) : handle;
    asked.offset = static_cast<std::int64_t>(number());
    asked.buffer = random.one_in(3) ? heap + random.below(5) * 4 : number();
    asked.length = random.one_in(3) ? random.below(8) : number();
    asked.argument = static_cast<std::int64_t>(random.bits());
    job.request = asked;
    const int error = validate(job, arena.view(), files);
    if (error != 0) {
      ASSERT_FALSE(job.holds_file);
      continue;
    }
    ++accepted;
    if (job.holds_file) {
      ASSERT_EQ(job.file, open_file);
      files.release(asked.file);
    }
    if (job.kind == Kind::read || job.kind == Kind::write || job.kind == Kind::append) {
      std::uint64_t total = 0;
      for (const iovec& vector : job.vectors) {
        ASSERT_TRUE(arena.view().contains(vector.iov_base, vector.iov_len));
        total += vector.iov_len;
      }
      ASSERT_GE(job.offset, 0);
      ASSERT_LE(static_cast<std::uint64_t>(job.offset) + total,
                static_cast<std::uint64_t>(i64_max));
    } else if (job.kind == Kind::open || job.kind == Kind::unlink ||
               job.kind == Kind::path_status) {
      ASSERT_LT(std::strlen(job.path), 4096U);
      ASSERT_TRUE(job.path < reinterpret_cast<const char*>(base) ||
                  job.path >= reinterpret_cast<const char*>(base) + size());
    }
  }
  EXPECT_GT(accepted, 0U);
}

TEST(DeviceStatus, HasEveryField) {
  storage::Status from;
  from.size_bytes = 1;
  from.allocated_bytes = 2;
  from.inode = 3;
  from.device = 4;
  from.modified_ns = -5;
  from.mode = 6;
  from.links = 7;
  from.owner = 8;
  from.group = 9;
  from.block_bytes = 10;
  from.version = 11;
  from.generated = true;
  const device::FileStatus to = to_device(from);
  EXPECT_EQ(to.size_bytes, 1U);
  EXPECT_EQ(to.allocated_bytes, 2U);
  EXPECT_EQ(to.inode, 3U);
  EXPECT_EQ(to.device, 4U);
  EXPECT_EQ(to.modified_ns, -5);
  EXPECT_EQ(to.mode, 6U);
  EXPECT_EQ(to.links, 7U);
  EXPECT_EQ(to.owner, 8U);
  EXPECT_EQ(to.group, 9U);
  EXPECT_EQ(to.block_bytes, 10U);
  EXPECT_EQ(to.version, 11U);
  EXPECT_EQ(to.generated, 1U);
}

}  // namespace
}  // namespace ferry::server
