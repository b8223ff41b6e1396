// Batches of random parts from several threads, with random errors, short transfers, delays and
// cancellations, compared with a plain copy of the file; checks that nothing is written elsewhere.
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
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
#include "support/host_or_gpu_memory.hpp"

namespace ferry::bulk::random_transfers_test {
namespace {

using test::Random;
using test::scaled;

constexpr std::size_t file_bytes = 1 << 20;
constexpr std::size_t part_bytes_max = 300 << 10;
constexpr char untouched = '#';

using Memory = test::HostOrGpuMemory;
using test::Gpu;
struct RandomGpuTransfers : test::OnMockGpu {};

struct Batch {
  std::vector<Part> parts;
  std::vector<Memory> memory;  // each with a guard of 16 bytes behind it
};

struct Reads {
  const Engine& engine;
  std::vector<const File*> files;
  const std::string& wanted;  // what the files hold
  bool may_fail = false;
  Gpu gpu = nullptr;  // null: into memory of the host
};

Batch random_batch(Random& random, const Reads& reads) {
  Batch batch;
  const std::size_t count = random.one_in(4) ? random.below(200) : random.below(6);
  batch.memory.reserve(count);
  const std::size_t bytes_max = reads.gpu == nullptr ? part_bytes_max : 3 * reads.wanted.size() / 4;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t bytes = random.below(count > 6 ? 9000 : bytes_max);
    batch.memory.emplace_back(reads.gpu, std::string(bytes + 16, untouched));
    batch.parts.push_back(Part{random.pick(reads.files), batch.memory[i].data(), bytes,
                               random.below(reads.wanted.size() * 9 / 8)});
  }
  return batch;
}

// Every byte up to the result is the file's, and none beyond the part was touched.
void check_read(const Batch& batch, std::size_t i, std::int64_t result, const std::string& wanted) {
  const Part& part = batch.parts[i];
  const std::string memory = batch.memory[i].contents();
  ASSERT_EQ(memory.substr(part.bytes), std::string(16, untouched));
  if (result < 0) return;
  const std::string expected =
      part.offset < wanted.size() ? wanted.substr(part.offset, part.bytes) : std::string();
  ASSERT_EQ(result, static_cast<std::int64_t>(expected.size()));
  ASSERT_TRUE(test::same_bytes(std::string_view(memory).substr(0, expected.size()), expected));
}

EngineOptions random_options(Random& random) {
  return {
      .workers = static_cast<unsigned>(random.between(1, 4)),
      .depth = static_cast<unsigned>(random.between(1, 6)),
      .task_bytes = 4096 * random.between(1, 40),
      .route = random.pick(std::vector<Route>{Route::automatic, Route::buffered, Route::direct})};
}

void read_at_random(const Reads& reads, Random random) {
  const auto contents = [](const Batch& batch) {
    std::vector<std::string> all;
    for (const Memory& one : batch.memory)
      all.push_back(one.contents());
    return all;
  };
  for (std::uint64_t round = 0; round < scaled(60); ++round) {
    const Batch batch = random_batch(random, reads);
    Future future = reads.engine.read(batch.parts);
    const bool cancel = random.one_in(5);
    if (cancel) future.cancel();
    if (random.one_in(6)) {
      // Nothing may touch the memory once the future is gone.
      future = Future();
      if (reads.gpu != nullptr) continue;  // a copy in flight would be noticed when it is freed
      const std::vector<std::string> before = contents(batch);
      std::this_thread::yield();
      ASSERT_EQ(before, contents(batch));
      continue;
    }
    const std::vector<std::int64_t>& results = future.results();
    ASSERT_EQ(results.size(), batch.parts.size());
    std::size_t failed = 0;
    for (std::size_t i = 0; i < results.size(); ++i) {
      check_read(batch, i, results[i], reads.wanted);
      if (results[i] < 0) ++failed;
      ASSERT_TRUE(results[i] >= 0 || cancel || reads.may_fail) << results[i];
    }
    ASSERT_EQ(future.failures().size(), failed);
  }
}

void read_by_threads(const Reads& reads, Random& random, const std::function<void()>& meanwhile) {
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 3; ++thread) {
    threads.emplace_back([&, stream = random.fork()] { read_at_random(reads, stream); });
  }
  meanwhile();
  for (std::thread& thread : threads)
    thread.join();
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
    read_by_threads({engine, {&one, &two}, wanted, false, nullptr}, random, [&] {
      for (std::uint64_t i = 1; i <= 20; ++i) {  // the page cache comes and goes
        if (i == renamed) take_name(random, scratch);
        fsync(fd);
        posix_fadvise(fd, static_cast<off_t>(random.below(file_bytes)), 100000,
                      POSIX_FADV_DONTNEED);
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      }
    });
  }
}

// Reads that fail, are short and take their time.
void read_with_faults(const std::string& wanted, const Gpu& gpu) {
  Random random;
  std::uint64_t injected = 0;
  for (int trial = 0; trial < (gpu == nullptr ? 6 : 4); ++trial) {
    auto* storage = new test::FailingStorage(random.fork());
    storage->set_contents("/file", wanted);
    EngineOptions options = random_options(random);
    if (gpu != nullptr && random.one_in(2)) options.task_bytes = 0;
    const Engine engine(
        std::make_shared<Scheduler>(options, std::unique_ptr<storage::Storage>(storage)));
    const File file(engine, "/file");
    storage->faults.reads = 30;
    storage->faults.short_reads = 10;
    storage->faults.delays = 3;
    if (gpu != nullptr) test::MockCuda::set("copy_delay_us", static_cast<long>(random.below(60)));
    read_by_threads({engine, {&file}, wanted, true, gpu}, random, [] {});
    injected += storage->injected;
  }
  EXPECT_GT(injected, 0U);
}

TEST(RandomTransfers, ReadsThatFailAreShortAndTakeTheirTime) {
  read_with_faults(test::pattern(file_bytes, 2), nullptr);
}

TEST_F(RandomGpuTransfers, ReadsThatFailAreShortAndTakeTheirTime) {
  read_with_faults(test::pattern(4 * file_bytes, 11), gpu);
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
