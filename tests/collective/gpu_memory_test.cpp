// Transfers from and to device memory: the mock driver's GPUs, whose memory faults on host access,
// and arenas of the `cpu` device. Plain memory is the reference.

#include <ferry/ferry.hpp>

#include "collective/random_case.hpp"
#include "collective/world.hpp"
#include "support/host_or_gpu_memory.hpp"

namespace ferry::collective::gpu_memory_test {
namespace {

using namespace test;

struct GpuMemory : OnMockGpu {};
using Memory = HostOrGpuMemory;

Options small_buffers(Method method) {
  return options_of(method, 0, 64 << 10);
}

std::string written(const Case& of, const std::string& path, Memory& memory) {
  const Share& share = of.mine();
  if (rank() == 0) write_file(path, pattern(of.bytes_before, of.write_seed + 99));
  barrier();
  File file(MPI_COMM_WORLD, path, O_RDWR, of.options);
  file.set_view(of.displacement, share.view.map());
  EXPECT_EQ(file.write_at_all(share.offset, memory.data(), share.memory.map(), share.count),
            share.bytes());
  file.close();
  return read_file(path);
}

std::string filled(const Case& of, const std::string& path, Memory& memory) {
  const Share& share = of.mine();
  File file(MPI_COMM_WORLD, path, O_RDONLY, of.options);
  file.set_view(of.displacement, share.view.map());
  file.read_at_all(share.offset, memory.data(), share.memory.map(), share.count);
  file.close();
  return memory.contents();
}

class GpuMemoryMethods : public GpuMemory, public testing::WithParamInterface<Method> {};

TEST_P(GpuMemoryMethods, RandomViewsAsFromAndToMemoryOfTheHost) {
  Random random;
  const SharedDirectory directory;
  const std::uint64_t rounds = scaled(10);
  for (std::uint64_t i = 0; i < rounds; ++i) {
    Case one(random);
    one.options.write_method = one.options.read_method = GetParam();
    // Some ranks' memory is the host's.
    const std::vector<bool> gpus{true, true, random.one_in(2)};
    const bool is_gpu = gpus[static_cast<std::size_t>(rank()) % 3];
    const std::string contents = one.memory_of(static_cast<std::size_t>(rank()));
    Memory plain(nullptr, contents);
    Memory tested(is_gpu ? gpu : nullptr, contents);
    const std::string wanted = written(one, directory / "plain", plain);
    EXPECT_TRUE(same_bytes(written(one, directory / "gpu", tested), wanted));
    // Also gaps in memory, and bytes behind the end of the file.
    EXPECT_EQ(tested.contents(), contents) << "a write changed its memory";
    Case other(random);
    other.options.read_method = GetParam();
    const std::string before =
        pattern(static_cast<std::size_t>(other.mine().memory_bytes()), other.write_seed);
    Memory plainly(nullptr, before);
    Memory got(is_gpu ? gpu : nullptr, before);
    const std::string expected = filled(other, directory / "plain", plainly);
    EXPECT_TRUE(same_bytes(filled(other, directory / "gpu", got), expected));
    barrier();
  }
}

TEST_P(GpuMemoryMethods, ManyPiecesInBoundedMemory) {
  const SharedDirectory directory;
  constexpr std::int64_t piece_bytes = 4 * (64 << 10);
  constexpr std::int64_t bytes = 5 * piece_bytes + 12345;
  const auto seed = static_cast<std::uint64_t>(rank());
  const std::string mine = pattern(bytes, seed);
  MockCuda::set("pinned_bytes_max", 0);
  {
    File file(MPI_COMM_WORLD, directory / "file", O_CREAT | O_RDWR, small_buffers(GetParam()));
    file.set_view(rank() * 1000, TypeMap::strided(1, 1000, 1000 * ranks()));
    Memory source(gpu, mine);
    EXPECT_EQ(file.write_all(source.span()), bytes);
    Memory target(gpu, std::string(bytes, '?'));
    EXPECT_EQ(file.read_at_all(0, target.span()), bytes);
    EXPECT_TRUE(same_bytes(target.contents(), mine));
    const Statistics statistics = file.statistics();
    EXPECT_EQ(statistics.counts.gpu_bytes, static_cast<std::uint64_t>(2 * bytes * ranks()));
    EXPECT_GT(MockCuda::get("pinned_bytes"), 0);
    EXPECT_LE(MockCuda::get("pinned_bytes_max"), 3 * piece_bytes);
    EXPECT_EQ(MockCuda::get("pageable_copies"), 0);
    file.close();
  }
  EXPECT_EQ(MockCuda::get("pinned_bytes"), 0);
  EXPECT_EQ(MockCuda::get("streams"), 0);
}

INSTANTIATE_TEST_SUITE_P(Methods, GpuMemoryMethods,
                         testing::Values(Method::independent, Method::serial, Method::aggregate,
                                         Method::automatic),
                         [](const auto& of) { return name_of(of.param); });

TEST_F(GpuMemory, ByMpiIoToo) {
  const SharedDirectory directory;
  const std::string mine = pattern(600'000, static_cast<std::uint64_t>(rank()));
  File file(MPI_COMM_WORLD, directory / "file", O_CREAT | O_RDWR, small_buffers(Method::mpiio));
  Memory source(gpu, mine);
  file.write_at_all(rank() * 600'000, source.span());
  Memory target(gpu, std::string(mine.size(), '?'));
  EXPECT_EQ(file.read_at_all(rank() * 600'000, target.span()), 600'000);
  EXPECT_TRUE(same_bytes(target.contents(), mine));
  file.close();
}

TEST_F(GpuMemory, ByOneRankAloneAndNonblocking) {
  const SharedDirectory directory;
  const std::string mine = pattern(1 << 20, static_cast<std::uint64_t>(rank()));
  File file(MPI_COMM_WORLD, directory / "file", O_CREAT | O_RDWR, small_buffers(Method::aggregate));
  file.set_view(rank() << 20, TypeMap());
  Memory source(gpu, mine);
  Memory target(gpu, std::string(mine.size(), '?'));
  EXPECT_EQ(file.write_at(0, source.span()), 1 << 20);
  EXPECT_EQ(file.read_at(0, target.span()), 1 << 20);
  EXPECT_TRUE(same_bytes(target.contents(), mine));
  Memory other(gpu, pattern(mine.size(), 77));
  Transfer write = file.iwrite_at_all(0, other.span());
  Transfer read = file.iread_at_all(0, target.span());
  EXPECT_EQ(write.wait(), 1 << 20);
  EXPECT_EQ(read.wait(), 1 << 20);
  EXPECT_TRUE(same_bytes(target.contents(), pattern(mine.size(), 77)));
  file.close();
}

TEST_F(GpuMemory, ElementsAreReversedAsThoseOfTheHost) {
  const SharedDirectory directory;
  const std::string mine = pattern(300'000, static_cast<std::uint64_t>(rank()));
  for (const Method method : {Method::independent, Method::aggregate}) {
    for (const bool is_gpu : {false, true}) {
      File file(MPI_COMM_WORLD, directory / (is_gpu ? "gpu" : "host"), O_CREAT | O_RDWR,
                small_buffers(method));
      file.set_view(rank() * 8, TypeMap::strided(1, 8, 8 * ranks()), {ByteOrder::big, 8});
      Memory memory(is_gpu ? gpu : nullptr, mine);
      file.write_at_all(0, memory.data(), TypeMap(), 300'000);
      Memory got(is_gpu ? gpu : nullptr, std::string(mine.size(), '?'));
      file.read_at_all(0, got.data(), TypeMap(), 300'000);
      EXPECT_TRUE(same_bytes(got.contents(), mine));
      file.close();
    }
    EXPECT_TRUE(same_bytes(read_file(directory / "gpu"), read_file(directory / "host")));
    barrier();
  }
}

// Each copy costs the driver some microseconds, so small extents are copied with their gaps.
TEST_F(GpuMemory, SmallExtentsOfAGpuTakeFewCopies) {
  const SharedDirectory directory;
  constexpr std::int64_t count = 50'000;
  const TypeMap memory = TypeMap::strided(1, 8, 24);
  // Without the gap of the last: a span may not reach beyond the allocation.
  const std::string mine = pattern(24 * count - 16, static_cast<std::uint64_t>(rank()));
  Memory source(gpu, mine);
  File file(MPI_COMM_WORLD, directory / "file", O_CREAT | O_RDWR,
            small_buffers(Method::independent));
  const long before = MockCuda::get("copies");
  file.write_at_all(rank() * 8 * count, source.data(), memory, count);
  EXPECT_LT(MockCuda::get("copies") - before, 50);
  file.close();
  std::string wanted;
  for (std::int64_t i = 0; i < count; ++i)
    wanted += mine.substr(static_cast<std::size_t>(24 * i), 8);
  EXPECT_TRUE(same_bytes(read_file(directory / "file")
                             .substr(static_cast<std::size_t>(rank() * 8 * count), wanted.size()),
                         wanted));
  barrier();
}

// The last rank's GPU fails, at the first copy or a later one, refused or under way.
TEST_F(GpuMemory, ACopyThatFailsIsToldToAllRanks) {
  const SharedDirectory directory;
  const bool last = rank() == ranks() - 1;
  const std::string mine = pattern(900'000, static_cast<std::uint64_t>(rank()));
  for (const Method method : own_methods) {
    File file(MPI_COMM_WORLD, directory / "file", O_CREAT | O_RDWR, small_buffers(method));
    Memory memory(gpu, mine);
    const std::int64_t at = rank() * 900'000;
    for (const char* const fault : {"fail_copy_call", "fail_copy"}) {
      for (const int nth : {1, 2, 4}) {
        if (last) MockCuda::set(fault, nth);
        EXPECT_EQ(error_of([&] { file.write_at_all(at, memory.span()); }), EIO) << fault << nth;
        clear_faults();
        EXPECT_EQ(file.write_at_all(at, memory.span()), 900'000) << "it goes on";
        if (last) MockCuda::set(fault, nth);
        EXPECT_EQ(error_of([&] { file.read_at_all(at, memory.span()); }), EIO) << fault << nth;
        clear_faults();
        EXPECT_EQ(file.read_at_all(at, memory.span()), 900'000);
        EXPECT_TRUE(same_bytes(memory.contents(), mine));
      }
    }
    if (last) MockCuda::set("fail_copy_call", 2);
    const int alone = error_of([&] { file.write_at(at, memory.span()); });
    EXPECT_EQ(alone, last ? EIO : 0) << "nobody else's";
    clear_faults();
    file.close();
  }
}

TEST_F(GpuMemory, ARankWithoutPinnedMemoryFailsAll) {
  const SharedDirectory directory;
  Memory memory(gpu, std::string(100'000, 'x'));
  File file(MPI_COMM_WORLD, directory / "file", O_CREAT | O_RDWR, small_buffers(Method::aggregate));
  if (rank() == ranks() - 1) MockCuda::set("out_of_memory", 1);
  EXPECT_EQ(error_of([&] { file.write_at_all(rank() * 100'000, memory.span()); }), ENOMEM);
  clear_faults();
  EXPECT_EQ(file.write_at_all(rank() * 100'000, memory.span()), 100'000);
  file.close();
}

TEST(CpuDevice, ItsArenaIsMemoryLikeAnyOther) {
  const SharedDirectory directory;
  RuntimeOptions options;
  options.arena_bytes = 8 << 20;
  Runtime runtime(options);
  const Buffer arena = runtime.allocate(2 << 20);
  const std::string mine = pattern(2 << 20, static_cast<std::uint64_t>(rank()));
  std::copy(mine.begin(), mine.end(), arena.as<char>());
  File file(MPI_COMM_WORLD, directory / "file", O_CREAT | O_RDWR, small_buffers(Method::aggregate));
  file.set_view(rank() * 4096, TypeMap::strided(1, 4096, 4096 * ranks()));
  const std::span<std::byte> memory{arena.as<std::byte>(), 2 << 20};
  EXPECT_EQ(file.write_at_all(0, memory), 2 << 20);
  std::fill(arena.as<char>(), arena.as<char>() + (2 << 20), '?');
  EXPECT_EQ(file.read_at_all(0, memory), 2 << 20);
  EXPECT_TRUE(same_bytes({arena.as<char>(), 2 << 20}, mine));
  EXPECT_EQ(file.statistics().counts.gpu_bytes, 0U) << "nothing is staged";
  file.close();
}

}  // namespace
}  // namespace ferry::collective::gpu_memory_test
