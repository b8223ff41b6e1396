// Batches of random parts from several threads, with random errors, short transfers, delays and
// cancellations, compared with a plain copy of the file; checks that nothing is written elsewhere.
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <ferry/bulk.hpp>

#include "bulk/scheduler.hpp"
#include "support/depth.hpp"
#include "support/failing_storage.hpp"
#include "support/files.hpp"

namespace ferry::bulk::random_transfers_test {
namespace {

using test::Random;
using test::scaled;

constexpr std::size_t file_bytes = 1 << 20;
constexpr std::size_t part_bytes_max = 300 << 10;
constexpr char untouched = '#';

struct Batch {
  std::vector<Part> parts;
  std::vector<std::string> memory;  // each with a guard of 16 bytes behind it
};

Batch random_batch(Random& random, const std::vector<const File*>& files) {
  Batch batch;
  const std::size_t count = random.one_in(4) ? random.below(200) : random.below(6);
  batch.memory.resize(count);
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t bytes = random.below(count > 6 ? 9000 : part_bytes_max);
    batch.memory[i].assign(bytes + 16, untouched);
    batch.parts.push_back(
        Part{random.pick(files), batch.memory[i].data(), bytes, random.below(file_bytes * 9 / 8)});
  }
  return batch;
}

// Every byte up to the result is the file's, and none beyond the part was touched.
void check_read(const Batch& batch, std::size_t i, std::int64_t result, const std::string& wanted) {
  const Part& part = batch.parts[i];
  const std::string& memory = batch.memory[i];
  ASSERT_EQ(memory.substr(part.bytes), std::string(16, untouched));
  if (result < 0) return;
  const std::string expected =
      part.offset < wanted.size() ? wanted.substr(part.offset, part.bytes) : std::string();
  ASSERT_EQ(result, static_cast<std::int64_t>(expected.size()));
  ASSERT_TRUE(test::same_bytes(std::string_view(memory).substr(0, expected.size()), expected));
}

EngineOptions random_options(Random& random) {
  EngineOptions options;
  options.workers = static_cast<unsigned>(random.between(1, 4));
  options.depth = static_cast<unsigned>(random.between(1, 6));
  options.task_bytes = 4096 * random.between(1, 40);
  options.route = random.pick(std::vector<Route>{Route::automatic, Route::buffered, Route::direct});
  return options;
}

void read_at_random(const Engine& engine, const std::vector<const File*>& files,
                    const std::string& wanted, Random random, bool may_fail) {
  for (std::uint64_t round = 0; round < scaled(60); ++round) {
    const Batch batch = random_batch(random, files);
    Future future = engine.read(batch.parts);
    const bool cancel = random.one_in(5);
    if (cancel) future.cancel();
    if (random.one_in(6)) {
      // Nothing may touch the memory once the future is gone.
      future = Future();
      std::vector<std::string> before = batch.memory;
      std::this_thread::yield();
      ASSERT_EQ(before, batch.memory);
      continue;
    }
    const std::vector<std::int64_t>& results = future.results();
    ASSERT_EQ(results.size(), batch.parts.size());
    std::size_t failed = 0;
    for (std::size_t i = 0; i < results.size(); ++i) {
      check_read(batch, i, results[i], wanted);
      if (results[i] < 0) ++failed;
      ASSERT_TRUE(results[i] >= 0 || cancel || may_fail) << results[i];
    }
    ASSERT_EQ(future.failures().size(), failed);
  }
}

// Another file takes the name, or none has it from now on.
void take_name(Random& random, const test::ScratchDirectory& scratch) {
  if (random.one_in(3)) {
    std::filesystem::remove(scratch / "file");
    return;
  }
  test::write_file(scratch / "other", test::pattern(file_bytes, 2));
  std::filesystem::rename(scratch / "other", scratch / "file");
}

TEST(RandomTransfers, ReadsOfRealFiles) {
  Random random;
  const test::ScratchDirectory scratch(test::build_folder());
  const std::string wanted = test::pattern(file_bytes, 1);
  for (int trial = 0; trial < 6; ++trial) {
    std::filesystem::remove(scratch / "file");
    test::write_file(scratch / "file", wanted);
    const Engine engine(random_options(random));
    const File one(engine, scratch / "file");
    const File two(engine, scratch / "file", O_RDONLY | (random.one_in(2) ? O_DIRECT : 0));
    const test::Descriptor fd(::open((scratch / "file").c_str(), O_RDONLY));
    const std::uint64_t renamed = random.below(10);
    if (renamed == 0) take_name(random, scratch);
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 3; ++thread) {
      threads.emplace_back([&, stream = random.fork()] {
        read_at_random(engine, {&one, &two}, wanted, stream, false);
      });
    }
    for (std::uint64_t i = 1; i <= 20; ++i) {  // the page cache comes and goes meanwhile
      if (i == renamed) take_name(random, scratch);
      fsync(fd);
      posix_fadvise(fd, static_cast<off_t>(random.below(file_bytes)), 100000, POSIX_FADV_DONTNEED);
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    for (std::thread& thread : threads)
      thread.join();
  }
}

TEST(RandomTransfers, ReadsThatFailAreShortAndTakeTheirTime) {
  Random random;
  const std::string wanted = test::pattern(file_bytes, 2);
  std::uint64_t injected = 0;
  for (int trial = 0; trial < 6; ++trial) {
    auto* storage = new test::FailingStorage(random.fork());
    storage->set_contents("/file", wanted);
    const Engine engine(std::make_shared<Scheduler>(random_options(random),
                                                    std::unique_ptr<storage::Storage>(storage)));
    const File file(engine, "/file");
    storage->faults.reads = 30;
    storage->faults.short_reads = 10;
    storage->faults.delays = 3;
    std::vector<std::thread> threads;
    for (int thread = 0; thread < 3; ++thread) {
      threads.emplace_back(
          [&, stream = random.fork()] { read_at_random(engine, {&file}, wanted, stream, true); });
    }
    for (std::thread& thread : threads)
      thread.join();
    injected += storage->injected;
  }
  EXPECT_GT(injected, 0U);
}

// Each thread writes a stripe of its own, so that the outcome is known.
TEST(RandomTransfers, WritesBesideEachOther) {
  Random random;
  const test::ScratchDirectory scratch(test::build_folder());
  constexpr std::size_t stripe = file_bytes / 4;
  for (const int extra : {0, O_DIRECT}) {
    std::string wanted = test::pattern(file_bytes, 3);
    test::write_file(scratch / "file", wanted);
    const Engine engine(random_options(random));
    File file(engine, scratch / "file", O_RDWR | extra);
    std::vector<std::thread> threads;
    for (std::size_t thread = 0; thread < 4; ++thread) {
      threads.emplace_back([&, thread, stream = random.fork()]() mutable {
        for (std::uint64_t round = 0; round < scaled(100); ++round) {
          const std::size_t begin = stream.below(stripe);
          const std::size_t bytes = stream.between(0, stripe - begin);
          const std::string data = test::pattern(bytes, stream.bits());
          const std::uint64_t offset = thread * stripe + begin;
          ASSERT_EQ(file.write_at_async(data.data(), bytes, offset).get(), bytes);
          std::memcpy(wanted.data() + offset, data.data(), bytes);
          std::string back(bytes, ' ');
          ASSERT_EQ(file.read_at(back.data(), bytes, offset), bytes);
          ASSERT_TRUE(test::same_bytes(back, data));
        }
      });
    }
    for (std::thread& thread : threads)
      thread.join();
    file.sync();
    file.close();
    EXPECT_TRUE(test::same_bytes(test::read_file(scratch / "file"), wanted));
  }
}

}  // namespace
}  // namespace ferry::bulk::random_transfers_test
