// Each allocation fails beside an NFS server: of a device program and of bulk transfers with one in
// this process, whose own do not count, and of the whole bulk program with a real one.
#include <cerrno>
#include <string>

#include <gtest/gtest.h>

#include <ferry/bulk.hpp>

#include "faults/allocations.hpp"
#include "faults/bulk_program.hpp"
#include "faults/device_program.hpp"
#include "faults/nfs_bulk_program.hpp"
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
  NfsBulkProgram program(server_, "&timeout=60&connections=2", allocations(), is_expected_of_nfs);
  fail_each_allocation([&] { program.run(); }, step);
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
