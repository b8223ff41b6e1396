#include "harness/session.hpp"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
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
  void shutdown(std::chrono::milliseconds /*deadline*/) override {}

 private:
  const std::string path_;
};

// Is interrupted while it verifies a file, and goes on for long.
class Busy final : public MeasuredDevice {
 public:
  Sample run_cell(const CellRun& /*run*/, const std::atomic<bool>& /*stopped*/) override {
    return {};
  }
  void verify_reads(const Cell& cell, const std::atomic<bool>& /*stopped*/) override {
    if (test::file_size(cell.path) != 8192) ::_exit(1);
    ::kill(::getpid(), SIGINT);
    std::this_thread::sleep_for(std::chrono::seconds(60));
    ::_exit(2);
  }
  void shutdown(std::chrono::milliseconds /*deadline*/) override {}
};

TEST(Sessions, LeaveNoFilesWhereAnInterruptedStepGoesOn) {
  const test::ScratchDirectory scratch;
  const std::string path = scratch / "file";
  const auto run = [&] {
    const Plan plan = read_plan(
        R"({"schema": "ferry.plan/3", "repeats": 1, "cells": [{"id": "a", "interface": "posix",
            "operation": "read", "make": true, "transfer_bytes": 1024, "total_bytes": 8192,
            "path": ")" +
        path + R"("}]})");
    hold_signals();
    const Runtimes runtimes(
        plan, [](const Plan&, const RuntimeOptions&) { return std::make_unique<Busy>(); });
    const Interruption interruption(runtimes);
    Session(plan, runtimes, interruption).run();
  };
  EXPECT_EXIT(run(), testing::ExitedWithCode(exit_interrupted), "");
  EXPECT_EQ(test::file_size(path), -ENOENT);
}

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
