// Transfers between files and device memory that the host cannot address, by the mock's copy
// engines, which finish late.
#include "backend/cuda/staged_storage.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>

#include "storage/router.hpp"
#include "support/depth.hpp"
#include "support/fake_storage.hpp"
#include "support/files.hpp"
#include "support/mock_gpu.hpp"
#include "support/storage_driver.hpp"

namespace ferry::cuda {
namespace {

using storage::Kind;
using storage::Operation;
using test::MockCuda;
using test::StorageDriver;

class StagedTransfers : public test::OnMockGpu {
 protected:
  StagedTransfers() {
    options.small_bytes = 4096;
    options.small_slabs = 3;
    options.large_bytes = 64 << 10;
    options.large_slabs = 2;
  }

  void SetUp() override {
    OnMockGpu::SetUp();
    MockCuda::set("copy_delay_us", 20);
  }
  void make(storage::Storage& below) {
    staged = make_staged_storage(below, gpu, device, options, 1);
    driver = std::make_unique<StorageDriver>(*staged);
  }
  char* at(std::size_t offset) const { return reinterpret_cast<char*>(device.pointer()) + offset; }
  // The bytes behind such an address.
  char* bytes_at(std::size_t offset) const { return at(offset) + MockCuda::get("kernel_offset"); }
  std::string noise(std::size_t bytes) {
    std::string text(bytes, '\0');
    std::generate(text.begin(), text.end(), [&] { return static_cast<char>(random.bits()); });
    return text;
  }
  // A file of noise on a plain storage below; returns what it holds.
  std::string make_noise(std::size_t bytes) {
    make(*posix);
    const std::string text = noise(bytes);
    test::write_file(path, text);
    return text;
  }
  std::string device_text(std::size_t offset, std::size_t bytes) const {
    return std::string(bytes_at(offset), bytes);
  }

  test::Random random;
  test::ScratchDirectory directory;
  const std::string path = directory / "file";
  DeviceMemory device{gpu, 8 << 20};
  std::unique_ptr<storage::Storage> posix = storage::make_router({});
  test::FakeStorage fake;
  StagingOptions options;
  std::unique_ptr<storage::Storage> staged;
  std::unique_ptr<StorageDriver> driver;
};

TEST_F(StagedTransfers, ReadsAFileIntoTheDevice) {
  const std::string text = make_noise(300'000);
  storage::File* file = driver->must_open(path, O_RDONLY);
  EXPECT_EQ(driver->pread(file, at(1000), 300'000, 0), 300'000);
  EXPECT_EQ(device_text(1000, 300'000), text);
  // Short at the end of the file, and nothing behind it.
  EXPECT_EQ(driver->pread(file, at(500'000), 300'000, 250'000), 50'000);
  EXPECT_EQ(device_text(500'000, 50'000), text.substr(250'000));
  EXPECT_EQ(driver->pread(file, at(0), 10, 300'000), 0);
  EXPECT_EQ(driver->pread(file, at(0), 0, 0), 0);
  driver->close(file);
}

TEST_F(StagedTransfers, WritesFromTheDevice) {
  make(*posix);
  const std::string text = noise(300'000);
  std::memcpy(bytes_at(77), text.data(), text.size());
  storage::File* file = driver->must_open(path, O_RDWR | O_CREAT);
  EXPECT_EQ(driver->pwrite(file, at(77), text.size(), 0), 300'000);
  driver->close(file);
  EXPECT_EQ(test::read_file(path), text);
}

TEST_F(StagedTransfers, TakesPiecesOfBothMemories) {
  const std::string text = make_noise(100'000);
  storage::File* file = driver->must_open(path, O_RDWR);
  std::string host(30'000, '\0');
  EXPECT_EQ(driver->transfer(Kind::read, file,
                             {iovec{at(0), 50'000}, iovec{host.data(), host.size()},
                              iovec{at(0), 0}, iovec{at(60'000), 20'000}},
                             0),
            100'000);
  EXPECT_EQ(device_text(0, 50'000) + host + device_text(60'000, 20'000), text);
  EXPECT_EQ(driver->transfer(Kind::write, file,
                             {iovec{host.data(), host.size()}, iovec{at(0), 50'000}}, 9),
            80'000);
  driver->close(file);
  EXPECT_EQ(test::read_file(path).substr(9, 80'000), host + text.substr(0, 50'000));
}

TEST_F(StagedTransfers, AppendsInOrder) {
  make(*posix);
  const std::string text = noise(500'000);
  std::memcpy(bytes_at(0), text.data(), text.size());
  test::write_file(path, "before");
  storage::File* file = driver->must_open(path, O_WRONLY | O_APPEND);
  std::uint64_t position = 0;
  EXPECT_EQ(driver->append(file, at(0), text.size(), position), 500'000);
  EXPECT_EQ(position, 500'006U);
  driver->close(file);
  EXPECT_EQ(test::read_file(path), "before" + text);
}

TEST_F(StagedTransfers, ReportsWhatTheStorageRefuses) {
  make(*posix);
  storage::File* full = driver->must_open("/dev/full", O_WRONLY);
  EXPECT_EQ(driver->pwrite(full, at(0), 1'000'000, 0), -ENOSPC);
  driver->close(full);
  test::write_file(path, "text");
  storage::File* file = driver->must_open(path, O_RDONLY);
  EXPECT_EQ(driver->pwrite(file, at(0), 100'000, 0), -EBADF);
  EXPECT_EQ(driver->pread(file, at(0), 4, 0), 4);  // nothing is left behind
  driver->close(file);
}

TEST_F(StagedTransfers, ACopyThatFailsCutsTheTransfer) {
  make(*posix);
  const std::string text = noise(64 << 10);
  test::write_file(path, text + text + text);
  storage::File* file = driver->must_open(path, O_RDWR);
  MockCuda::set("fail_copy_call", 1);  // which of the first parts that is, is open
  const std::int64_t result = driver->pread(file, at(0), 3 * (64 << 10), 0);
  EXPECT_TRUE(result == -EIO || result == 64 << 10) << result;
  MockCuda::set("fail_copy_call", 1);
  EXPECT_EQ(driver->pread(file, at(0), 100, 0), -EIO);
  MockCuda::set("fail_copy_call", 1);
  EXPECT_EQ(driver->pwrite(file, at(0), 100, 0), -EIO);
  EXPECT_EQ(driver->pread(file, at(0), 100, 0), 100);
  EXPECT_EQ(device_text(0, 100), text.substr(0, 100));
  driver->close(file);
}

TEST_F(StagedTransfers, CancelsWhatIsUnderWayAndWhatIsNot) {
  fake.can_cancel = true;
  make(fake);
  storage::File* file = driver->must_open("file", O_RDONLY);
  fake.hold();
  Operation operation{.kind = Kind::read, .file = file};
  iovec one{at(0), 4 << 20};  // far more than there are slabs
  operation.vectors = {&one, 1};
  driver->queue().submit(operation);
  driver->queue().flush();
  EXPECT_EQ(fake.counts.held.load(), 2);  // the large slabs
  EXPECT_EQ(driver->queue().reap(), nullptr);
  driver->queue().cancel(operation);
  EXPECT_EQ(&driver->next(), &operation);
  EXPECT_EQ(operation.result, -ECANCELED);
  fake.release();
  EXPECT_EQ(driver->pread(file, at(0), 100, 0), 100);
  EXPECT_EQ(device_text(0, 100), std::string(100, test::FakeStorage::fill));
  driver->close(file);
}

TEST_F(StagedTransfers, SmallOnesDoNotWaitBehindALargeOne) {
  make(fake);
  storage::File* file = driver->must_open("file", O_RDONLY);
  fake.hold();
  Operation operations[2];
  iovec memory[2] = {{at(0), 1 << 20}, {at(1 << 20), 100}};
  for (int i = 0; i < 2; ++i) {
    operations[i].kind = Kind::read;
    operations[i].file = file;
    operations[i].vectors = {&memory[i], 1};
    driver->queue().submit(operations[i]);
  }
  driver->queue().flush();
  EXPECT_EQ(fake.counts.held.load(), 3);  // two large parts and the small one
  fake.release();
  driver->next();
  driver->next();
  EXPECT_EQ(operations[0].result, 1 << 20);
  EXPECT_EQ(operations[1].result, 100);
  driver->close(file);
}

// No bell rings for a GPU's request, so a thread that waits for hours would never see it.
TEST_F(StagedTransfers, WaitsEndWithoutABell) {
  make(*posix);
  for (int i = 0; i < 10; ++i)
    driver->queue().wait(driver->seen(), std::chrono::hours(1));
}

// Many simultaneous transfers on one file, without overlapping writes, against plain memory.
TEST_F(StagedTransfers, AgreesWithAReference) {
  make(*posix);
  constexpr std::size_t stretch = 700'000;
  constexpr unsigned lanes = 8;  // each has its own stretch of the file and of the device
  std::string reference = noise(stretch * lanes);
  test::write_file(path, reference);
  storage::File* file = driver->must_open(path, O_RDWR);
  struct Lane {
    Operation operation;
    std::vector<iovec> vectors;
    std::string expected;  // of a read: what the pieces hold then
    bool busy = false;
  };
  std::vector<Lane> all(lanes);
  const auto start = [&](unsigned index) {
    MockCuda::set("copy_delay_us", static_cast<long>(random.below(60)));
    Lane& lane = all[index];
    const std::size_t begin = index * stretch + random.below(stretch);
    const std::size_t bytes = random.between(1, (index + 1) * stretch - begin);
    lane.operation = Operation{};
    lane.operation.kind = random.one_in(2) ? Kind::read : Kind::write;
    lane.operation.file = file;
    lane.operation.offset = static_cast<std::int64_t>(begin);
    lane.vectors.clear();
    std::size_t place = index * stretch;
    for (std::size_t left = bytes; left > 0;) {
      const std::size_t step = random.one_in(3) ? left : random.between(1, left);
      lane.vectors.push_back(iovec{at(place), step});
      place += step;
      left -= step;
    }
    lane.operation.vectors = lane.vectors;
    if (lane.operation.kind == Kind::write) {
      const std::string text = noise(bytes);
      std::memcpy(bytes_at(index * stretch), text.data(), bytes);
      reference.replace(begin, bytes, text);
    } else {
      lane.expected = reference.substr(begin, bytes);
    }
    lane.busy = true;
    driver->queue().submit(lane.operation);
  };
  const std::uint64_t rounds = test::scaled(300);
  std::uint64_t started = 0;
  std::uint64_t ended = 0;
  while (ended < rounds) {
    for (unsigned i = 0; i < lanes && started < rounds; ++i) {
      if (all[i].busy) continue;
      start(i);
      ++started;
    }
    driver->queue().flush();
    Operation& operation = driver->next();
    const auto found = std::find_if(all.begin(), all.end(),
                                    [&](Lane& lane) { return &lane.operation == &operation; });
    ASSERT_NE(found, all.end());
    std::size_t bytes = 0;
    for (const iovec& one : found->vectors)
      bytes += one.iov_len;
    ASSERT_EQ(operation.result, static_cast<std::int64_t>(bytes));
    if (operation.kind == Kind::read) {
      ASSERT_EQ(device_text(static_cast<std::size_t>(found - all.begin()) * stretch, bytes),
                found->expected);
    }
    found->busy = false;
    ++ended;
  }
  driver->close(file);
  EXPECT_EQ(test::read_file(path), reference);
}

}  // namespace
}  // namespace ferry::cuda
