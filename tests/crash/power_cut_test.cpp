// The power of a disk goes while a program writes to an ext4 on it: after the file system's own
// recovery, all that Ferry acknowledged as synced is in the file, and every other byte comes from a
// write that had begun.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <iostream>
#include <new>
#include <span>
#include <string>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ferry/ferry.hpp>

#include "crash/forgetful_disk.hpp"
#include "crash/killed_writes.hpp"
#include "support/depth.hpp"
#include "support/files.hpp"
#include "support/runtimes.hpp"

namespace ferry::test {
namespace {

// Empty, or what it printed that failed.
std::string run_command(const std::string& command) {
  FILE* output = popen((command + " 2>&1").c_str(), "r");
  std::string text;
  for (int byte = 0; (byte = std::fgetc(output)) != EOF;)
    text += static_cast<char>(byte);
  return pclose(output) == 0 ? "" : command + ": " + text;
}

// Another process may take the free loop device first.
std::string mount_by_loop(const std::string& image, const std::string& place) {
  std::string error;
  for (int attempt = 0; attempt < 20; ++attempt) {
    error = run_command("mount -t ext4 -o loop " + image + " " + place);
    if (error.find("loop device") == std::string::npos) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  return error;
}

// How far the program was when the disk had got so much.
struct Moment {
  std::size_t length;  // of the disk's log
  std::uint64_t begun;
  std::uint64_t kept;
};

// What the child leaves to the test, in memory that both share.
struct Notes {
  static constexpr std::size_t moments_max = 2000;

  std::size_t count = 0;
  std::size_t first_length = 0;  // of the log, when the program began
  bool is_absent = false;
  char why[500] = "";
  Moment moments[moments_max];

  void add(const Moment& moment) { moments[count++] = moment; }
  void set_why(const std::string& text) { std::strncpy(why, text.c_str(), sizeof why - 1); }
};

class PowerCut : public testing::TestWithParam<KilledSetup> {
 protected:
  void SetUp() override {
    if (!mounts_) GTEST_SKIP() << "absent: " << mounts_.why();
    void* memory =
        mmap(nullptr, sizeof(Notes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    notes_ = new (memory) Notes;
    write_file(disk_path_, "");
    if (const int error = disk_.attach(disk_path_); error != 0)
      GTEST_SKIP() << "absent: FUSE: " << std::strerror(error);
    for (const std::string& place : {running_, cut_})
      ASSERT_EQ(mkdir(place.c_str(), 0755), 0);
  }
  void TearDown() override {
    if (mounts_) umount2(cut_.c_str(), MNT_DETACH);
    if (notes_ != nullptr) munmap(notes_, sizeof *notes_);
  }

  // A child makes the file system, runs the program and unmounts it.
  void write_and_sync() {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      disk_.leave();
      alarm(100);
      _exit(run_child() ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    if (notes_->is_absent) GTEST_SKIP() << "absent: " << notes_->why;
    ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << notes_->why;
    ASSERT_GT(disk_.flushes(), 0U);
  }
  bool run_child() {
    Notes& notes = *notes_;
    std::string error = run_command("command -v mkfs.ext4");
    if (error.empty())
      error = run_command("mkfs.ext4 -q -F -b 4096 -J size=4 -E nodiscard " + disk_path_);
    if (error.empty()) error = mount_by_loop(disk_path_, running_);
    notes.is_absent = !error.empty();
    if (error.empty()) {
      ::sync();
      notes.first_length = disk_.length();
      error = run_program();
      if (umount(running_.c_str()) != 0) error += " umount";
    }
    notes.set_why(error);
    return error.empty();
  }
  // Writes to the file, syncs now and then, and notes each moment. Empty, or what failed.
  std::string run_program() {
    const KilledSetup& setup = GetParam();
    std::string failed;
    Runtime runtime(cached_options(setup.cache_pages, setup.placement));
    runtime.run([&](DeviceThread& self) {
      auto& files = self.files;
      const std::string path = running_ + "/file";
      const int flags = O_RDWR | O_CREAT | setup.flags;
      int file = files.open(path.c_str(), flags, 0644);
      std::uint64_t kept = 0;
      for (std::uint64_t write = 1; write <= writes_ && file > 0; ++write) {
        notes_->add({disk_.length(), write, kept});
        const std::string data = program_.data(write);
        const std::size_t offset = program_.slot(write) * KilledWrites::slot_bytes;
        if (files.pwrite(file, data.data(), data.size(), static_cast<std::int64_t>(offset)) !=
            static_cast<std::int64_t>(data.size()))
          break;
        const std::uint64_t what = program_.mix(~write) % 32;
        int error = 0;
        bool keeps = setup.cache_pages == 0 && (setup.flags & O_DSYNC) != 0;
        if (what <= 2) {
          error = what == 2 ? files.fdatasync(file) : files.fsync(file);
          keeps = true;
        } else if (what <= 4) {
          error = files.flush(file);
          keeps = keeps || counts_flush_;
        } else if (what == 5) {
          error = files.close(file);
          file = files.open(path.c_str(), flags, 0644);
        }
        if (error != 0) break;
        if (!keeps) continue;
        kept = write;
        notes_->add({disk_.length(), write, kept});
      }
      if (file <= 0 || notes_->moments[notes_->count - 1].begun != writes_)
        failed = "a call failed";
      if (file > 0 && files.close(file) != 0) failed = "close failed";
    });
    return failed;
  }
  // Empty, or what is wrong with the file after a cut at a random moment.
  std::string cut(bool lies = false) {
    const std::size_t first = notes_->first_length;
    const std::size_t length = first + random_.below(disk_.length() - first + 1);
    KilledProgress progress;
    for (const Moment& one : std::span(notes_->moments, notes_->count)) {
      if (one.length > length) continue;
      progress.begun = std::max(progress.begun.load(), one.begun);
      progress.kept = std::max(progress.kept.load(), one.kept);
    }
    write_file(image_, disk_.after_cut(lies ? first : 0, length, random_));
    if (const std::string error = mount_by_loop(image_, cut_); !error.empty()) return error;
    const std::string path = cut_ + "/file";
    std::string wrong;
    try {  // a file system that lost a part of itself may refuse the file
      if (std::filesystem::exists(path)) {
        wrong = look_at_killed(path, program_, progress);
      } else if (progress.kept > 0) {
        wrong = "the file is not there";
      }
    } catch (const std::exception& error) {
      wrong = error.what();
    }
    kept_ += progress.kept;
    if (umount2(cut_.c_str(), 0) != 0) return "the file system stays in use";
    return wrong;
  }

  static constexpr std::uint64_t writes_ = 400;

  bool counts_flush_ = false;  // as if `flush` promised what `fsync` does
  std::uint64_t kept_ = 0;
  Notes* notes_ = nullptr;
  Random random_;
  KilledWrites program_{random_.bits()};
  OwnMount mounts_{"size=64m"};
  const std::string disk_path_ = mounts_ / "disk";
  const std::string running_ = mounts_ / "running";
  const std::string cut_ = mounts_ / "cut";
  const std::string image_ = mounts_ / "image";
  ForgetfulDisk disk_{16 << 20};
};

TEST_P(PowerCut, LeavesWhatWasSynced) {
  write_and_sync();
  if (IsSkipped() || HasFatalFailure()) return;
  const std::uint64_t cuts = is_deep() ? 500 : 10;
  for (std::uint64_t number = 0; number < cuts; ++number)
    ASSERT_EQ(cut(), "") << "cut " << number;
  EXPECT_GT(kept_, 0U);
  std::cout << cuts << " cuts, " << disk_.length() << " requests of the disk, " << disk_.flushes()
            << " of them flushes\n";
}

// What the test is for: the same disk without its flushes loses what was synced.
TEST_P(PowerCut, FindsADiskThatForgetsWhatItFlushed) {
  write_and_sync();
  if (IsSkipped() || HasFatalFailure()) return;
  bool found = false;
  for (int number = 0; number < 100 && !found; ++number)
    found = !cut(true).empty();
  EXPECT_TRUE(found);
}

INSTANTIATE_TEST_SUITE_P(
    Setups, PowerCut,
    testing::Values(KilledSetup{"Host", device::Placement::host, 0, 0},
                    KilledSetup{"HostDsync", device::Placement::host, 0, O_DSYNC},
                    KilledSetup{"Compute", device::Placement::compute, 32, 0},
                    KilledSetup{"ComputeFewPages", device::Placement::compute, 6, 0},
                    KilledSetup{"Service", device::Placement::service, 32, 0}),
    [](const auto& one) { return std::string(one.param.name); });

// A promise that Ferry does not give: what was only flushed may be lost with the power.
class PowerCutAfterFlush : public PowerCut {};

TEST_P(PowerCutAfterFlush, LosesBytes) {
  counts_flush_ = true;
  write_and_sync();
  if (IsSkipped() || HasFatalFailure()) return;
  bool found = false;
  for (int number = 0; number < 100 && !found; ++number)
    found = !cut().empty();
  EXPECT_TRUE(found);
}

INSTANTIATE_TEST_SUITE_P(Setups, PowerCutAfterFlush,
                         testing::Values(KilledSetup{"Compute", device::Placement::compute, 32, 0}),
                         [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace ferry::test
