// Each allocation fails beside an NFS server: of a device program and of bulk transfers with one in
// this process, whose own do not count, and of the whole bulk program with a real one.
#include <cerrno>
#include <cstring>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>

#include <ferry/bulk.hpp>

#include "faults/allocations.hpp"
#include "faults/bulk_program.hpp"
#include "faults/device_program.hpp"
#include "storage/router.hpp"
#include "support/depth.hpp"
#include "support/fake_nfs_server.hpp"
#include "support/files.hpp"
#include "support/one_caller_rig.hpp"
#include "support/servers.hpp"

namespace ferry::test {
namespace {

constexpr std::uint64_t step = 20;

bool is_expected_of_nfs(int number) {
  return is_lack_of_memory(number) || number == EIO;
}

class NfsAllocations : public testing::Test {
 protected:
  FakeNfsServer server_{[] { PointsHere::count = false; }};
};

TEST_F(NfsAllocations, OfADeviceProgramEachFailsOnce) {
  TestedFile file;
  file.path = server_.uri("f", "&timeout=60&connections=2");
  file.write = [this](std::string_view bytes) { server_.put("f", bytes); };
  file.read = [this] { return server_.contents("f"); };
  file.exists = [this] { return server_.has("f"); };
  file.remove = [this] { server_.remove("f"); };
  const FaultInForce fault{allocations(), is_expected_of_nfs, true, true, [] { return false; }};
  const ByteSources sources;
  fail_each_allocation(
      [&] {
        OneCallerRig<storage::Storage> rig(storage::make_router({}), device::Placement::compute,
                                           16);
        rig.align_memory();
        DeviceProgram(*rig.calls, file, rig.memory, fault, sources, true).run();
      },
      step);
}

TEST_F(NfsAllocations, OfBulkTransfersEachFailsOnce) {
  const std::string before = pattern(300'000, 1);
  const std::string after = pattern(300'000, 2);
  const std::string path = server_.uri("f", "&timeout=60&connections=2");
  const auto makes = [](const auto& work) {
    try {
      const PointsHere counts(true);
      work();
      return true;
    } catch (const Error& failure) {
      EXPECT_TRUE(allocations().struck()) << failure.what();
      EXPECT_TRUE(is_expected_of_nfs(failure.code().value())) << failure.what();
    } catch (const std::bad_alloc&) {
      EXPECT_TRUE(allocations().struck());
    }
    return false;
  };
  fail_each_allocation(
      [&] {
        server_.put("f", before);
        bool is_written = false;
        makes([&] {
          const bulk::Engine engine({.workers = 2, .depth = 2, .task_bytes = 64 << 10});
          bulk::File file(engine, path, O_RDWR);
          std::string got(before.size(), ' ');
          const auto reads = [&](const std::string& wanted) {
            const bool is_read =
                makes([&] { EXPECT_EQ(file.read_at(got.data(), got.size(), 0), got.size()); });
            if (is_read) {
              EXPECT_TRUE(same_bytes(got, wanted));
            }
          };
          reads(before);
          for (unsigned i = 0; i <= allocations().times_struck() && !is_written; ++i)
            is_written = makes([&] { file.write_at_async(after.data(), after.size(), 0).get(); });
          EXPECT_TRUE(is_written) << "the fault came twice";
          makes([&] { file.sync(); });
          reads(after);
          makes([&] {
            const std::vector<std::string> both(2, path);
            for (const bulk::Contents& one : engine.read_files(both))
              EXPECT_TRUE((one.error_number != 0 && allocations().struck()) ||
                          same_bytes({reinterpret_cast<const char*>(one.data), one.bytes}, after));
          });
          makes([&] { file.close(); });
        });
        EXPECT_TRUE(same_bytes(server_.contents("f"), is_written ? after : before));
      },
      step);
}

TEST(NfsServerAllocations, OfABulkProgramEachFailsOnce) {
  const auto served = served_folder("NFS");
  if (!served) GTEST_SKIP() << no_server("NFS");
  const ScratchDirectory scratch(served->directory);
  fail_each_allocation(
      [&] {
        run_engine([] { return bulk::Engine({.workers = 2, .depth = 2, .task_bytes = 64 << 10}); },
                   scratch, allocations(), is_expected_of_nfs,
                   [&](const std::string& file) {
                     return served->uri_of(file.substr(served->directory.size() + 1));
                   });
      },
      step);
}

}  // namespace
}  // namespace ferry::test
