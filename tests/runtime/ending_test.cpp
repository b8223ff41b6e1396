// The end of a runtime over a storage that hangs or fails: within the deadline, reporting unwritten
// data by file, and retried by the next shutdown().
#include "runtime/ending.hpp"

#include <cerrno>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>

#include "support/ending_rig.hpp"
#include "support/files.hpp"

namespace ferry {
namespace {

using device::Placement;
using std::chrono::milliseconds;
using test::pattern;
using test::same_bytes;

class EndingTest : public test::OnEndingRig {
 protected:
  EndingTest() : OnEndingRig(1) {}
  // Leaves a file open with these bytes dirty.
  void write(const char* path, const std::string& bytes) {
    test::Calls files = rig->calls(0);
    files.use(Placement::compute);
    const int file = files.open(path, O_RDWR | O_CREAT);
    ASSERT_GT(file, 0);
    ASSERT_EQ(files.pwrite(file, bytes.data(), bytes.size(), 0),
              static_cast<std::int64_t>(bytes.size()));
  }
  ShutdownReport shutdown(milliseconds deadline) {
    ShutdownReport report;
    test::within_patience("a shutdown", [&] { report = ending->shutdown(deadline); });
    return report;
  }

  const std::string data = pattern(2 * page, 1);
};

// The hang lasts until the first call has returned.
TEST_F(EndingTest, AStorageThatHangsDoesNotHoldItUp) {
  write("f", data);
  storage->hang("f");
  const ShutdownReport first = shutdown(milliseconds(50));
  EXPECT_FALSE(first.finished);
  ASSERT_EQ(first.errors.size(), 1U);
  EXPECT_EQ(first.errors[0], "writing back f: it outlasted the deadline (2 pages)");
  test::Calls files = rig->calls(0);
  EXPECT_EQ(files.ping(), -ESHUTDOWN) << "programs are refused all the same";
  EXPECT_FALSE(shutdown(milliseconds(0)).finished);
  storage->let_go();
  const ShutdownReport last = shutdown(test::patience);
  EXPECT_TRUE(last.finished);
  EXPECT_TRUE(last.errors.empty());
  EXPECT_EQ(last.files_closed, 1U);
  EXPECT_TRUE(same_bytes(storage->contents("f"), data));
}

TEST_F(EndingTest, WhatFailedIsNamedAndTriedAgain) {
  write("full", data);
  write("healthy", data);
  storage->fail_writes_to("full");
  storage->faults.error = ENOSPC;
  storage->faults.writes = 1;
  for (int i = 0; i < 2; ++i) {
    const ShutdownReport report = shutdown(test::patience);
    EXPECT_FALSE(report.finished);
    ASSERT_EQ(report.errors.size(), 1U);
    EXPECT_EQ(report.errors[0], "writing back full: No space left on device (2 pages)");
    EXPECT_TRUE(same_bytes(storage->contents("healthy"), data));
  }
  test::Calls files = rig->calls(0);
  EXPECT_EQ(files.open("other", O_RDONLY), -ESHUTDOWN);
  storage->faults.stop();
  const ShutdownReport last = shutdown(test::patience);
  EXPECT_TRUE(last.finished);
  EXPECT_TRUE(last.errors.empty());
  EXPECT_TRUE(same_bytes(storage->contents("full"), data));
}

TEST_F(EndingTest, AHangingCloseDoesNotHoldItUp) {
  write("f", data);
  storage->faults.closes_hang = true;
  const ShutdownReport first = shutdown(milliseconds(50));
  EXPECT_FALSE(first.finished);
  EXPECT_EQ(first.files_closed, 0U);
  ASSERT_FALSE(first.errors.empty());
  EXPECT_TRUE(same_bytes(storage->contents("f"), data)) << "that was possible";
  storage->faults.stop();
  const ShutdownReport last = shutdown(test::patience);
  EXPECT_TRUE(last.finished);
  EXPECT_TRUE(last.errors.empty());
  EXPECT_EQ(last.files_closed, 1U);
}

TEST_F(EndingTest, GivesUpInTheEnd) {
  write("f", data);
  storage->faults.writes = 1;
  EXPECT_FALSE(shutdown(milliseconds(50)).finished);
  ending.reset();
  EXPECT_TRUE(rig->server->stop(test::patience).finished);
}

// Each within its own deadline, also while another one waits.
TEST_F(EndingTest, SeveralAtOnceTakeTurns) {
  write("f", data);
  storage->hang("f");
  ShutdownReport patient;
  std::thread other([&] { patient = ending->shutdown(test::patience); });
  EXPECT_FALSE(shutdown(milliseconds(10)).finished);
  storage->let_go();
  test::within_patience("the other shutdown", [&] { other.join(); });
  EXPECT_TRUE(shutdown(test::patience).finished);
  EXPECT_TRUE(same_bytes(storage->contents("f"), data));
}

}  // namespace
}  // namespace ferry
