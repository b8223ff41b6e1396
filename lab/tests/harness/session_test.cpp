#include "harness/session.hpp"

#include <cerrno>
#include <memory>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "support/files.hpp"

namespace ferry::bench::session_test {
namespace {

// Whose medium is unplugged once the first repeat is over.
class Unplugged final : public MeasuredDevice {
 public:
  explicit Unplugged(std::string path) : path_(std::move(path)) {}
  Sample run_cell(const CellRun& run, const std::atomic<bool>& /*stopped*/) override {
    EXPECT_EQ(run.create_flags, 0);
    return {};
  }
  void verify_reads(const Cell& /*cell*/, const std::atomic<bool>& /*stopped*/) override {}
  void verify_write(const CellRun& /*run*/, const Sample& /*sample*/,
                    const std::atomic<bool>& /*stopped*/) override {
    EXPECT_EQ(::unlink(path_.c_str()), 0);
  }
  bool shutdown(std::chrono::milliseconds /*deadline*/) override { return true; }

 private:
  const std::string path_;
};

TEST(Sessions, MakeNoFileInThePlaceOfABlockDevice) {
  const test::ScratchDirectory scratch;
  const std::string path = scratch / "disk";
  if (::mknod(path.c_str(), S_IFBLK | 0600, makedev(4095, 0)) != 0)
    GTEST_SKIP() << "this process may make no block device";
  const Plan plan = read_plan(
      R"({"schema": "ferry.plan/3", "repeats": 3, "cells": [{"id": "a", "interface": "posix",
          "operation": "write", "overwrite": true, "transfer_bytes": 1024, "total_bytes": 8192,
          "path": ")" +
      path + R"("}]})");
  const Runtimes runtimes(
      plan, [&](const Plan&, const RuntimeOptions&) { return std::make_unique<Unplugged>(path); });
  const Interruption interruption(runtimes);
  testing::internal::CaptureStdout();
  int error = 0;
  try {
    Session(plan, runtimes, interruption).run();
  } catch (const CellFailure& failure) {
    error = failure.error_number;
  }
  testing::internal::GetCapturedStdout();
  EXPECT_EQ(error, ENODEV);
  EXPECT_EQ(test::file_size(path), -ENOENT);
}

}  // namespace
}  // namespace ferry::bench::session_test
