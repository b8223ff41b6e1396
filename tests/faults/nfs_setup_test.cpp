// Each system call of an engine fails, and of bulk transfers with an NFS server in this process,
// whose own do not count.
#include <cerrno>

#include <gtest/gtest.h>

#include "faults/each_system_call.hpp"
#include "faults/nfs_bulk_program.hpp"

namespace ferry::test {
namespace {

TEST(NfsBulkSetups, EachCallFailsOnce) {
  FakeNfsServer server([] { PointsHere::count = false; });
  const PointsHere not_here(false);
  NfsBulkProgram program(server, "&timeout=60&connections=2", system_calls(), is_of_a_system_call);
  fail_each_call([&] { program.run(); });
}

}  // namespace
}  // namespace ferry::test
