// Calls of which some read and some write: what each must find, and what must be there afterwards.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>

#include "harness/pattern.hpp"
#include "harness/programs.hpp"
#include "harness/verification.hpp"
#include "support/error_of.hpp"
#include "support/files.hpp"

namespace ferry::bench::mixed_test {
namespace {

constexpr std::uint64_t call_bytes = 4096;
constexpr unsigned places = 64;
constexpr std::uint64_t seed = 7;

// A file in memory, which may lose writes, and notes how many were there at each sync.
class MemoryFile final : public FileAccess {
 public:
  MemoryFile(bool loses, std::vector<std::uint64_t>& synced)
      : FileAccess("memory"), loses_(loses), synced_(synced), data_(places * call_bytes) {
    fill_pattern(data_.data(), data_.size(), 0, made_seed_of(seed));
  }
  void open(int) override {}
  std::int64_t read(void* data, std::uint64_t bytes, std::uint64_t offset) override {
    std::memcpy(data, data_.data() + offset, bytes);
    return static_cast<std::int64_t>(bytes);
  }
  std::int64_t write(const void* data, std::uint64_t bytes, std::uint64_t offset) override {
    ++writes_;
    if (!loses_) std::memcpy(data_.data() + offset, data, bytes);
    return static_cast<std::int64_t>(bytes);
  }
  void sync() override { synced_.push_back(writes_); }
  void close() override {}

 private:
  const bool loses_;
  std::uint64_t writes_ = 0;
  std::vector<std::uint64_t>& synced_;
  std::vector<unsigned char> data_;
};

Cell mixed_cell(Offsets offsets) {
  Cell cell;
  cell.interface = Interface::posix;
  cell.operation = MeasuredOperation::write;
  cell.rewrite = true;
  cell.read_percent = 60;
  cell.transfer_bytes = call_bytes;
  cell.total_bytes = places * call_bytes;
  cell.offsets = offsets;
  cell.hot_file_percent = 10;
  cell.hot_call_percent = 90;
  return cell;
}

// Runs the cell on such a file, and verifies what the last read has found.
ProgramOutput run(const Cell& cell, bool loses_writes, std::vector<std::uint64_t>* synced = nullptr,
                  const std::atomic<bool>* others_failed = nullptr,
                  std::function<std::uint64_t(std::uint64_t)> agree_on_time = {}) {
  std::vector<std::uint64_t> unused;
  Accesses files;
  files.push_back(std::make_unique<MemoryFile>(loses_writes, synced == nullptr ? unused : *synced));
  std::vector<unsigned char> buffer(cell.buffer_bytes());
  const std::vector<std::uint32_t> order = make_order(cell, 0);
  const std::atomic<bool> stopped{false};
  const ProgramInput input{
      cell,    files, O_RDWR,        buffer.data(), part_of(cell, 0),        seed, order,
      stopped, 0,     others_failed, false,         std::move(agree_on_time)};
  ProgramOutput output;
  prepare_buffer(input);
  run_program(input, output);
  verify_last_reads(input, output);
  return output;
}

std::uint64_t reads_of(const Cell& cell, std::uint64_t calls) {
  std::uint64_t reads = 0;
  for (std::uint64_t call = 0; call < calls; ++call)
    if (operation_of(cell, 0, call) == MeasuredOperation::read) ++reads;
  return reads;
}

TEST(Mixed, AsManyCallsReadAsShould) {
  Cell cell = mixed_cell(Offsets::sequential);
  for (const unsigned percent : {1U, 30U, 70U, 99U}) {
    cell.read_percent = percent;
    EXPECT_NEAR(static_cast<double>(reads_of(cell, 100'000)), 1000.0 * percent, 700);
  }
  cell.read_percent = 0;
  EXPECT_EQ(reads_of(cell, 100), 0U);
}

TEST(Mixed, ReadsFindWhatWasMadeOrWritten) {
  for (const Offsets offsets : {Offsets::sequential, Offsets::random, Offsets::hotspot}) {
    Cell cell = mixed_cell(offsets);
    for (const bool check : {false, true}) {
      cell.check = check;
      const ProgramOutput output = run(cell, false);
      EXPECT_EQ(output.operations, places);
      EXPECT_EQ(output.read_operations, reads_of(cell, places));
      EXPECT_EQ(output.last_reads.size(), 1U);
    }
  }
}

TEST(Mixed, LatenciesOfReadsAndWritesAreApart) {
  Cell cell = mixed_cell(Offsets::random);
  cell.latency = true;
  const ProgramOutput output = run(cell, false);
  EXPECT_EQ(output.read_latencies.samples(), reads_of(cell, places));
  EXPECT_EQ(output.latencies.samples(), places - reads_of(cell, places));
}

TEST(Mixed, AReadThatFindsNoWriteBeforeItIsCaught) {
  Cell cell = mixed_cell(Offsets::hotspot);
  cell.check = true;
  EXPECT_THROW(run(cell, true), ContentsError);
}

TEST(Mixed, WhatAnotherJobWritesMeanwhileIsOfOneOrOfTheOther) {
  const test::ScratchDirectory directory;
  Cell cell;
  cell.path = directory / "file";
  cell.transfer_bytes = call_bytes;
  cell.expect_pattern_seed = made_seed_of(seed);
  cell.meanwhile_pattern_seed = seed;
  const std::uint64_t offset = 3 * call_bytes;
  std::vector<unsigned char> before(call_bytes);
  std::vector<unsigned char> written(call_bytes);
  fill_pattern(before.data(), call_bytes, offset, made_seed_of(seed));
  fill_pattern(written.data(), call_bytes, offset, seed);
  std::vector<unsigned char> found = before;
  verify_either(cell, {}, found.data(), offset);
  verify_either(cell, {}, written.data(), offset);
  std::copy(written.begin() + 1001, written.begin() + 2003, found.begin() + 1001);
  verify_either(cell, {}, found.data(), offset);
  EXPECT_THROW(verify_either(cell, {}, found.data(), 0), ContentsError);
  for (unsigned byte = 0; byte < 256; ++byte) {
    found[1500] = static_cast<unsigned char>(byte);
    if (byte == written[1500] || byte == before[1500]) continue;
    EXPECT_THROW(verify_either(cell, {}, found.data(), offset), ContentsError) << byte;
  }
}

TEST(Mixed, SyncsBehindSoManyWrites) {
  Cell cell = mixed_cell(Offsets::random);
  cell.sync_every_calls = 7;
  std::vector<std::uint64_t> synced;
  run(cell, false, &synced);
  const std::uint64_t writes = places - reads_of(cell, places);
  ASSERT_EQ(synced.size(), writes / 7);
  for (std::size_t i = 0; i < synced.size(); ++i)
    EXPECT_EQ(synced[i], 7 * (i + 1));
}

TEST(Mixed, EndsWhereAnotherJobHasFailed) {
  Cell cell = mixed_cell(Offsets::random);
  cell.time_ms = 3'600'000;
  const std::atomic<bool> failed{true};
  try {
    run(cell, false, nullptr, &failed);
    ADD_FAILURE() << "it went on";
  } catch (const Error& error) {
    EXPECT_EQ(error.code().value(), EINTR);
  }
}

// Whatever its own clock says: all ranks end behind the same call.
TEST(Mixed, RanksEndByTheTimeThatTheyAgreeOn) {
  Cell cell = mixed_cell(Offsets::sequential);
  cell.collective = true;
  cell.latency = true;  // so that they agree behind each call
  cell.ramp_ms = 10;
  cell.time_ms = 25;
  std::uint64_t asked = 0;
  const ProgramOutput output = run(cell, false, nullptr, nullptr, [&](std::uint64_t) {
    return ++asked * 4'000'000;  // 4 ms each
  });
  EXPECT_EQ(output.operations, 9U);  // the first after 35 ms
  EXPECT_EQ(asked, 9U);
  EXPECT_EQ(output.ramp_operations, 3U);
  EXPECT_EQ(output.ramp_ns, 12'000'000U);
}

// All of them, while the next call at a rate is far off.
TEST(Mixed, RanksAgreeWhileTheyWaitForTheirNextCall) {
  Cell cell = mixed_cell(Offsets::sequential);
  cell.collective = true;
  cell.total_bytes = 2 * call_bytes;
  cell.rate_bytes_per_s = call_bytes;
  std::vector<std::uint64_t> asked_ns;
  const auto agree = [&](std::uint64_t elapsed_ns) {
    asked_ns.push_back(elapsed_ns);
    if (asked_ns.size() == 3) throw Error(EINTR, "interrupted");
    return (asked_ns.size() - 1) * 400'000'000;
  };
  EXPECT_EQ(test::error_of([&] { run(cell, false, nullptr, nullptr, agree); }), EINTR);
  ASSERT_EQ(asked_ns.size(), 3U);
  EXPECT_GE(asked_ns[1], 100'000'000U);
  EXPECT_GE(asked_ns[2], 500'000'000U);  // a step behind the time that they agreed on
}

// It has no limit in time otherwise.
TEST(Mixed, RanksAtARateEndWhenOneOfThemHasFailed) {
  Cell cell = mixed_cell(Offsets::sequential);
  cell.collective = true;
  cell.total_bytes = 2 * call_bytes;
  cell.rate_bytes_per_s = 4 * call_bytes;
  const auto agree = [](std::uint64_t) { return std::uint64_t{1} << 61; };
  EXPECT_EQ(run(cell, false, nullptr, nullptr, agree).operations, 1U);
}

// Each draws for itself what it does, unless their calls are collective.
TEST(Mixed, RanksMakeTheSameCollectiveCalls) {
  Cell cell = mixed_cell(Offsets::sequential);
  cell.threads = 3;
  const auto differ = [&cell] {
    unsigned calls = 0;
    for (std::uint64_t call = 0; call < places; ++call)
      if (operation_of(cell, 0, call) != operation_of(cell, 2, call)) ++calls;
    return calls;
  };
  EXPECT_GT(differ(), 0U);
  cell.collective = true;
  EXPECT_EQ(differ(), 0U);
}

TEST(Mixed, AnInterruptionEndsTheMakingOfItsFile) {
  const test::ScratchDirectory directory;
  Cell cell = mixed_cell(Offsets::random);
  cell.path = directory / "file";
  const std::atomic<bool> stopped{true};
  EXPECT_THROW(make_file(cell, made_seed_of(seed), 0, stopped), Error);
  EXPECT_EQ(test::file_size(cell.path), 0);
}

TEST(Mixed, WhatIsWrittenAndWhatIsNotIsVerified) {
  const test::ScratchDirectory directory;
  Cell cell = mixed_cell(Offsets::random);
  cell.path = directory / "file";
  const std::atomic<bool> stopped{false};
  make_file(cell, made_seed_of(seed), 0, stopped);
  const std::vector<std::uint64_t> calls{places / 2};
  EXPECT_THROW(verify_written(cell, seed, calls), ContentsError);  // nothing is written yet
  const std::vector<bool> written = places_of(cell, 0, calls[0]);
  EXPECT_EQ(static_cast<std::uint64_t>(std::count(written.begin(), written.end(), true)),
            calls[0] - reads_of(cell, calls[0]));
  std::vector<unsigned char> data(call_bytes);
  const auto write = [&](std::uint64_t place) {
    fill_pattern(data.data(), call_bytes, place * call_bytes, seed);
    StoredFile(cell.path, O_WRONLY).write(data.data(), call_bytes, place * call_bytes);
  };
  std::uint64_t other = places;
  for (std::uint64_t place = 0; place < places; ++place) {
    if (written[place]) {
      write(place);
    } else {
      other = place;
    }
  }
  verify_written(cell, seed, calls);
  write(other);
  EXPECT_THROW(verify_written(cell, seed, calls), ContentsError);
}

}  // namespace
}  // namespace ferry::bench::mixed_test
