// File calls of many groups at once, on the `cpu` device, on a mock GPU and, by
// tests/cuda/device_tests.cu, in kernels: on one file, at one position, with counted requests, with
// mistakes, and until the runtime ends.
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>

#include "support/depth.hpp"
#include "support/files.hpp"
#include "support/machines.hpp"
#include "support/stripes.hpp"
#include "support/within.hpp"

namespace ferry {
namespace {

using device::Context;
using device::FileCalls;
using device::Placement;
using test::SharedPath;

template <class Place>
class GroupCalls : public testing::Test {
 protected:
  using Machine = typename Place::Machine;
  using Kind = typename Place::Kind;
  static constexpr std::uint32_t groups = Machine::groups;

  GroupCalls() : machine(wishes()) {}

  // Scales `times` of a `cpu` device's thread for a group.
  static std::uint64_t rounds(std::uint64_t times) {
    return test::scaled(times / Machine::cost_of(Kind::lanes));
  }
  template <class Program>
  void run(const Program& program) {
    test::run_groups<Kind>(groups, program);
    EXPECT_EQ(report.text(), "");
  }

  Machine machine;
  test::ScratchDirectory directory;
  test::ProgramReport report;

 private:
  static test::MachineOptions wishes() {
    test::MachineOptions options;
    options.groups = groups;
    options.arena_bytes = 16 << 20;
    return options;
  }
};
TYPED_TEST_SUITE(GroupCalls, test::Everywhere, test::NameOfPlace);

// ---- one file ----

TYPED_TEST(GroupCalls, KeepToTheirStripesOfOneFile) {
  test::Random random;
  for (const std::uint64_t stripe : std::vector<std::uint64_t>{1, 100, 512, 4096, 5000, 20'000}) {
    const Buffer memory = this->machine.runtime().allocate(this->groups * stripe);
    const test::OwnStripes stripes{stripe, 24, this->rounds(400), random.bits()};
    ASSERT_EQ(test::write_in_stripes(this->directory / "file", stripes, this->groups,
                                     this->machine.context(),
                                     this->machine.address(memory.template as<unsigned char>()),
                                     [&](const auto& program) { this->run(program); }),
              "")
        << "stripes of " << stripe;
  }
  test::expect_clean_end(this->machine);
}

// ---- one position ----

struct Record {
  std::uint64_t number;
  std::uint64_t copy;  // ~number
  std::uint64_t third;
};

// All groups read records at the position of one open file, which the first opens and closes. Then
// each appends as many as it has read to another file.
struct Records {
  const Context* context;
  const char* source;
  const char* target;
  Record* memory;       // one for each group
  std::uint32_t* seen;  // of each record, how often
  std::uint64_t records;
  std::uint32_t groups;
  std::int32_t* file;  // the shared one, once it is open
  std::uint32_t* finished;
  test::Checks checks;

  template <class Group>
  FERRY_DEVICE void operator()(Group group, std::uint32_t index) const {
    FileCalls files(*context, group, index);
    files.use(static_cast<Placement>(index % 4));
    const int shared = open_shared(files, group, index);
    const int own = files.open(target, O_WRONLY | O_APPEND);
    Record* record = memory + index;
    for (;;) {
      const std::int64_t got = files.read(shared, record, sizeof(Record));
      if (got == 0) break;
      if (!checks.equal(got, sizeof(Record))) break;
      const std::uint64_t number = record->number;
      checks.equal(record->copy, ~number);
      if (!checks.right(number < records)) break;
      group.sync();
      if (group.lane() == 0)
        device::DeviceRef<std::uint32_t>(seen[number]).fetch_add(1, device::relaxed);
      checks.equal(files.write(own, record, sizeof(Record)), sizeof(Record));
    }
    checks.equal(files.close(own), 0);
    close_shared(files, group, index, shared);
  }

 private:
  template <class Group>
  FERRY_DEVICE int open_shared(FileCalls<Group>& files, Group group, std::uint32_t index) const {
    device::DeviceRef<std::int32_t> handle(*file);
    if (index == 0) {
      const int made = files.open(source, O_RDONLY);
      if (group.lane() == 0) handle.store(made, device::release);
      return made;
    }
    std::int32_t found = 0;
    if (group.lane() == 0) {
      while ((found = handle.load(device::acquire)) == 0)
        test::let_others_run();
    }
    return group.broadcast(found);
  }
  template <class Group>
  FERRY_DEVICE void close_shared(FileCalls<Group>& files, Group group, std::uint32_t index,
                                 int shared) const {
    const device::DeviceRef<std::uint32_t> count(*finished);
    if (group.lane() == 0) {
      count.fetch_add(1, device::acq_rel);
      while (index == 0 && count.load(device::acquire) < groups)
        test::let_others_run();
    }
    group.sync();
    if (index == 0) checks.equal(files.close(shared), 0);
  }
};

TYPED_TEST(GroupCalls, ShareAPositionAndAppend) {
  const std::uint64_t records = this->rounds(1000) + 7;
  std::string text;
  for (std::uint64_t number = 0; number < records; ++number) {
    const Record record{number, ~number, 3 * number};
    text.append(reinterpret_cast<const char*>(&record), sizeof record);
  }
  const std::string source = this->directory / "source";
  const std::string target = this->directory / "target";
  test::write_file(source, text);
  test::write_file(target, "");
  const SharedPath source_path(source);
  const SharedPath target_path(target);
  const test::SharedArray<Record> memory(this->groups);
  const test::SharedArray<std::uint32_t> seen(records);
  const test::SharedArray<std::int32_t> file(1);
  const test::SharedArray<std::uint32_t> finished(1);
  this->run(Records{this->machine.context(), source_path.get(), target_path.get(), memory.data(),
                    seen.data(), records, this->groups, file.data(), finished.data(),
                    this->report.checks()});
  for (std::uint64_t number = 0; number < records; ++number)
    ASSERT_EQ(seen[number], 1U) << "record " << number;
  // The same records, in some order.
  const std::string appended = test::read_file(target);
  ASSERT_EQ(appended.size(), text.size());
  std::vector<bool> found(records);
  for (std::uint64_t i = 0; i < records; ++i) {
    Record record{};
    std::memcpy(&record, appended.data() + i * sizeof record, sizeof record);
    ASSERT_LT(record.number, records);
    ASSERT_EQ(record.third, 3 * record.number);
    ASSERT_FALSE(found[record.number]) << "record " << record.number << " twice";
    found[record.number] = true;
  }
  test::expect_clean_end(this->machine);
}

// ---- requests ----

struct Pings {
  const Context* context;
  std::uint64_t count;
  test::Checks checks;

  template <class Group>
  FERRY_DEVICE void operator()(Group group, std::uint32_t index) const {
    FileCalls files(*context, group, index);
    for (std::uint64_t i = 0; i < count; ++i) {
      checks.equal(files.ping(), 0);
      checks.equal(files.ping_batch(16), 0);
    }
  }
};

TYPED_TEST(GroupCalls, AreAnsweredOnce) {
  const std::uint64_t count = this->rounds(500);
  const RuntimeStatistics before = this->machine.runtime().statistics();
  this->run(Pings{this->machine.context(), count, this->report.checks()});
  const RuntimeStatistics after = this->machine.runtime().statistics();
  EXPECT_EQ(after.calls - before.calls, this->groups * count * 17);
  EXPECT_EQ(after.requests - before.requests, this->groups * count * 17);
  EXPECT_EQ(after.batches - before.batches, this->groups * count * 2);
  EXPECT_EQ(after.refused_requests, 0U);
}

// ---- mistakes ----

struct Mistakes {
  const Context* context;
  const char* path;
  const char* absent;
  const char* folder;
  char* memory;  // a page for each group
  test::Checks checks;

  template <class Group>
  FERRY_DEVICE void operator()(Group group, std::uint32_t index) const {
    FileCalls files(*context, group, index);
    for (std::uint32_t i = 0; i < 4; ++i) {
      files.use(static_cast<Placement>(i));
      opening(files);
      transferring(files, memory + index * std::uint64_t{4096});
    }
  }

 private:
  template <class Group>
  FERRY_DEVICE_CALL void opening(FileCalls<Group>& files) const {
    device::FileStatus status{};
    checks.equal(files.open(absent, O_RDONLY), -ENOENT);
    checks.equal(files.open(nullptr, O_RDONLY), -EFAULT);
    checks.equal(files.open(folder, O_RDWR), -EISDIR);
    checks.equal(files.open(path, O_RDWR | O_CREAT | O_EXCL), -EEXIST);
    checks.equal(files.stat(absent, &status), -ENOENT);
    checks.equal(files.unlink(absent), -ENOENT);
  }
  template <class Group>
  FERRY_DEVICE_CALL void transferring(FileCalls<Group>& files, char* buffer) const {
    const int reader = files.open(path, O_RDONLY);
    const int writer = files.open(path, O_WRONLY);
    checks.equal(files.pread(reader, buffer, 100, -1), -EINVAL);
    checks.equal(files.pread(reader, nullptr, 100, 0), -EFAULT);
    checks.equal(files.preadv(reader, nullptr, 1, 0), -EFAULT);
    checks.equal(files.pwrite(reader, buffer, 100, 0), -EBADF);
    checks.equal(files.write(reader, buffer, 100), -EBADF);
    checks.equal(files.pread(writer, buffer, 100, 0), -EBADF);
    checks.equal(files.ftruncate(writer, -1), -EINVAL);
    checks.equal(files.pread(reader, buffer, 100, 1000), 0);
    checks.equal(files.pread(reader, buffer, 100, 0), 10);
    checks.equal(files.close(reader), 0);
    checks.equal(files.close(writer), 0);
    const int gone_handles[] = {reader, 0, -1, 60'000};
    for (const int gone : gone_handles) {
      checks.equal(files.pread(gone, buffer, 100, 0), -EBADF);
      checks.equal(files.pwrite(gone, buffer, 100, 0), -EBADF);
      checks.equal(files.read(gone, buffer, 100), -EBADF);
      checks.equal(files.fsync(gone), -EBADF);
      checks.equal(files.close(gone), -EBADF);
    }
  }
};

TYPED_TEST(GroupCalls, ReportMistakes) {
  const std::string name = this->directory / "file";
  test::write_file(name, "ten bytes.");
  const SharedPath path(name);
  const SharedPath absent(this->directory / "absent");
  const SharedPath folder(this->directory.path());
  const Buffer memory = this->machine.runtime().allocate(this->groups * std::uint64_t{4096});
  this->run(Mistakes{this->machine.context(), path.get(), absent.get(), folder.get(),
                     this->machine.address(memory.template as<char>()), this->report.checks()});
  EXPECT_EQ(test::read_file(name), "ten bytes.");
  test::expect_clean_end(this->machine);
}

// ---- the end ----

// Reads a file that is larger than the cache until a call fails.
struct ReadForEver {
  const Context* context;
  const char* path;
  unsigned char* memory;  // 64 KiB for each group
  std::uint64_t bytes;    // of the file
  std::uint64_t seed;
  std::uint64_t* reads;  // of each group, so far
  std::int64_t* errors;  // of each group, once it has one
  test::Checks checks;

  template <class Group>
  FERRY_DEVICE void operator()(Group group, std::uint32_t index) const {
    FileCalls files(*context, group, index);
    files.use(static_cast<Placement>(index % 4));
    test::DeviceRandom random(seed + index);
    unsigned char* buffer = memory + index * std::uint64_t{65'536};
    const int file = files.open(path, O_RDONLY);
    if (!checks.right(file > 0)) return;
    for (std::uint64_t count = 1;; ++count) {
      const std::uint64_t step = 1 + random.below(65'536);
      const auto offset = static_cast<std::int64_t>(random.below(bytes - step));
      const std::int64_t got = files.pread(file, buffer, step, offset);
      if (got < 0) {
        if (group.lane() == 0) errors[index] = got;
        return;
      }
      // The end may cut a read short after its first bytes; what the cache has is read even then.
      checks.right(got > 0);
      if (group.lane() == 0)
        device::SystemRef<std::uint64_t>(reads[index]).store(count, device::release);
    }
  }
};

TYPED_TEST(GroupCalls, EndWhenTheRuntimeDoes) {
  const std::uint64_t bytes = 1 << 20;
  const std::string name = this->directory / "file";
  test::write_file(name, test::pattern(bytes, 1));
  const SharedPath path(name);
  const Buffer memory = this->machine.runtime().allocate(this->groups * std::uint64_t{65'536});
  const test::SharedArray<std::uint64_t> reads(this->groups);
  const test::SharedArray<std::int64_t> errors(this->groups);
  test::Random random;
  const ReadForEver program{this->machine.context(),
                            path.get(),
                            this->machine.address(memory.template as<unsigned char>()),
                            bytes,
                            random.bits(),
                            reads.data(),
                            errors.data(),
                            this->report.checks()};
  std::thread runs([&] { this->run(program); });
  EXPECT_TRUE(test::eventually([&] {
    for (std::uint32_t i = 0; i < this->groups; ++i) {
      if (device::SystemRef<std::uint64_t>(reads[i]).load(device::acquire) < 3) return false;
    }
    return true;
  }));
  EXPECT_TRUE(this->machine.runtime().shutdown(std::chrono::seconds(10)).finished);
  runs.join();
  for (std::uint32_t i = 0; i < this->groups; ++i)
    EXPECT_EQ(errors[i], -ESHUTDOWN) << "group " << i;
}

}  // namespace
}  // namespace ferry
