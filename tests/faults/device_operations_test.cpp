// Each operation of a device program on its storage fails, for every one that it makes.

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>

#include "faults/device_program.hpp"
#include "faults/nth_storage.hpp"
#include "faults/resources.hpp"
#include "support/depth.hpp"
#include "support/files.hpp"
#include "support/one_caller_rig.hpp"

namespace ferry::test {
namespace {

struct FaultSetup {
  const char* name;
  device::Placement placement = device::Placement::compute;
  std::uint32_t cache_pages = 16;  // 0: no cache
  StorageEngine engine = StorageEngine::automatic;
};

void PrintTo(const FaultSetup& setup, std::ostream* out) {
  *out << setup.name;
}

struct FaultRig : OneCallerRig<NthStorage> {
  explicit FaultRig(const FaultSetup& setup)
      : OneCallerRig(std::make_unique<NthStorage>(setup.engine), setup.placement,
                     setup.cache_pages) {
    align_memory();
  }
};

class DeviceOperations : public testing::TestWithParam<FaultSetup> {
 protected:
  // All faults of one kind. Returns how many operations the program makes.
  std::uint64_t fail_each(FaultMode mode, int error_shift) {
    FaultRig rig(GetParam());
    NthStorage& storage = *rig.storage;
    storage.mode = mode;
    const FaultInForce fault{
        storage.point,
        [&](int error) {
          return error == storage.error || (mode == FaultMode::late && error == ETIMEDOUT);
        },
        mode == FaultMode::late, mode == FaultMode::late || mode == FaultMode::done,
        [&] {
          return storage.struck_kind == storage::Kind::write && mode != FaultMode::shortened;
        }};
    const auto run = [&](std::uint64_t n) {
      storage.error =
          fault_errors[(n + static_cast<unsigned>(error_shift)) % std::size(fault_errors)];
      storage.point.arm(n);
      DeviceProgram(*rig.calls, scratch_ / "file", rig.memory, fault, sources_,
                    GetParam().cache_pages > 0)
          .run();
      storage.point.disarm();
    };
    run(never);  // threads of the storage start, and it learns the mount
    const Resources before = resources_now();
    return for_every_point(storage.point, [&](std::uint64_t n) {
      run(n);
      EXPECT_EQ(resources_now().descriptors, before.descriptors);
    });
  }

  const ByteSources sources_;
  const ScratchDirectory scratch_{build_folder()};
};

TEST_P(DeviceOperations, EachFailsOnce) {
  const Resources before = resources_now();
  std::uint64_t points = 0;
  for (const FaultMode mode : fault_modes) {
    SCOPED_TRACE(name_of(mode));
    for (int shift = 0; shift < (is_deep() ? 6 : 1); ++shift) {
      points += fail_each(mode, shift);
      if (HasFailure()) return;
    }
  }
  std::cout << "[  POINTS  ] " << points << '\n';
  expect_resources(before);
}

// What calls of every placement see is what the storage has, whatever it did before it failed.
TEST(FailedHostWrite, LeavesWhatTheStorageHas) {
  const ScratchDirectory scratch(build_folder());
  for (const bool appends : {false, true}) {
    FaultRig rig({"HostBesideCache", device::Placement::host});
    Calls& calls = *rig.calls;
    const std::string path = scratch / (appends ? "appended" : "written");
    const int flags = O_RDWR | O_CREAT | (appends ? O_APPEND : 0);
    const int file = calls.open(path.c_str(), flags, 0600);
    ASSERT_GT(file, 0);
    std::memset(rig.memory, 'a', 5000);
    ASSERT_EQ(calls.pwrite(file, rig.memory, 5000, 0), 5000);
    calls.use(device::Placement::compute);
    ASSERT_EQ(calls.pread(file, rig.memory, 5000, 0), 5000) << "its pages are in the cache";
    calls.use(device::Placement::host);
    rig.storage->mode = FaultMode::done;
    rig.storage->point.arm(1);
    std::memset(rig.memory, 'b', 8000);
    EXPECT_EQ(calls.pwrite(file, rig.memory, 8000, 0), -EIO);
    rig.storage->point.disarm();
    const std::string wanted =
        appends ? std::string(5000, 'a') + std::string(8000, 'b') : std::string(8000, 'b');
    ASSERT_EQ(read_file(path), wanted);
    device::FileStatus status{};
    EXPECT_EQ(calls.fstat(file, &status), 0);
    EXPECT_EQ(status.size_bytes, wanted.size());
    calls.use(device::Placement::compute);
    EXPECT_TRUE(same_bytes(read_at(calls, file, 13'000, 0), wanted));
    EXPECT_EQ(calls.close(file), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(
    , DeviceOperations,
    testing::Values(FaultSetup{"Host", device::Placement::host, 0},
                    FaultSetup{"HostBesideCache", device::Placement::host}, FaultSetup{"Compute"},
                    FaultSetup{"ComputeThreads", device::Placement::compute, 16,
                               StorageEngine::threads},
                    FaultSetup{"ComputeFewPages", device::Placement::compute, 4},
                    FaultSetup{"Service", device::Placement::service},
                    FaultSetup{"Automatic", device::Placement::automatic}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace ferry::test
