// Real programs above the library: their output and files must be the same as without it.
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

#include "support/depth.hpp"
#include "support/files.hpp"

namespace {

using ferry::test::read_file;
using ferry::test::same_bytes;
using ferry::test::ScratchDirectory;

struct Done {
  int status;
  std::string output;
};

Done run(const std::string& command) {
  Done done{-1, {}};
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return done;
  std::array<char, 4096> data;
  for (std::size_t got = 0; (got = fread(data.data(), 1, data.size(), pipe)) > 0;)
    done.output.append(data.data(), got);
  done.status = pclose(pipe);
  return done;
}

std::string buffered(const std::string& settings, const std::string& summary) {
  return "FERRY_IOBUF='" + settings + "' FERRY_IOBUF_SUMMARY='" + summary +
         "' LD_PRELOAD=" FERRY_RUN_LIBRARY " ";
}

class Programs : public testing::Test {
 protected:
  // Runs the C program with and without it, and returns the summary for its file.
  std::string same_with_and_without(const std::string& what, const std::string& options) {
    const std::string program = std::string(FERRY_SMALL_REQUESTS " ") + what + " ";
    const Done without = run(program + plain_);
    const Done with = run(buffered("*.dat" + options, summary_) + program + file_);
    EXPECT_EQ(without.status, 0) << without.output;
    EXPECT_EQ(with.status, without.status) << what;
    EXPECT_EQ(with.output, without.output) << what;
    EXPECT_TRUE(same_bytes(read_file(file_), read_file(plain_))) << what;
    return take_summary();
  }

  // Those of one run; the library appends them.
  std::string take_summary() const {
    const std::string summary = read_file(summary_);
    remove(summary_.c_str());
    return summary;
  }

  const ScratchDirectory directory_;
  const std::string plain_ = directory_ / "plain.dat";
  const std::string file_ = directory_ / "file.dat";
  const std::string summary_ = directory_ / "summary";
};

TEST_F(Programs, SmallCallsOfAllKinds) {
  for (const std::string options :
       {"", ":size=4k:count=1", ":size=8k:count=3", ":size=64k:count=2"}) {
    SCOPED_TRACE(options);
    const std::string summary = same_with_and_without("calls", options);
    EXPECT_NE(summary.find("file.dat: "), std::string::npos) << summary;
    EXPECT_EQ(summary.find("buffering ended"), std::string::npos) << summary;
  }
}

TEST_F(Programs, Streams) {
  const std::string summary = same_with_and_without("stdio", ":size=64k");
  // 428,890 bytes of lines in few requests, each of 64 KiB where it may be.
  EXPECT_NE(summary.find("writes of "), std::string::npos) << summary;
  EXPECT_EQ(summary.find("buffering ended"), std::string::npos) << summary;
}

TEST_F(Programs, LargeRequestsComeFromSmallOnes) {
  const Done done = run(buffered("*.dat:size=1m", summary_) +
                        "sh -c 'head -c 3000000 /dev/zero | dd bs=100 iflag=fullblock of=" + file_ +
                        " 2>/dev/null'");
  ASSERT_EQ(done.status, 0);
  EXPECT_EQ(ferry::test::file_size(file_), 3'000'000);
  // dd moves its file to descriptor 1 with dup2, where it is not buffered.
  EXPECT_NE(take_summary().find("buffering ended: dup2"), std::string::npos);
}

TEST_F(Programs, WhatIsNotBufferedAnyMore) {
  struct Case {
    const char* what;
    const char* why;
  };
  for (const auto& [what, why] : {Case{"fork", "fork"},
                                  {"_Fork", "fork"},
                                  {"dup", "dup"},
                                  {"socket", "a descriptor was sent"},
                                  {"cloned", "cloned"},
                                  {"dprintf", "dprintf"},
                                  {"aio", "AIO"},
                                  {"rings", "io_uring"},
                                  {"twice", "opened twice"},
                                  {"system", "another program runs"}}) {
    const std::string summary = same_with_and_without(what, "");
    EXPECT_NE(
        summary.find(std::string("100 writes of 7 bytes became 1 of 700; buffering ended: ") + why),
        std::string::npos)
        << summary;
  }
}

TEST_F(Programs, SeeTheirFilesByAllWays) {
  const std::string summary = same_with_and_without("beside", "");
  EXPECT_NE(summary.find("100 writes of 7 bytes became 1 of 700\n"), std::string::npos) << summary;
}

TEST_F(Programs, SeeTheirFilesByInheritedDescriptors) {
  for (const std::string& path : {plain_, file_})
    ferry::test::write_file(path, std::string(100, '-'));
  const auto program = [](const std::string& path) {
    return FERRY_SMALL_REQUESTS " inherited " + path + " 0<>" + path;
  };
  const Done without = run(program(plain_));
  const Done with = run(buffered("*.dat", summary_) + program(file_));
  EXPECT_EQ(without.output, "by name  by input\n");
  EXPECT_EQ(with.output, without.output);
}

TEST_F(Programs, FindWhatIsCutAndHowLargeFilesAre) {
  for (const char* what : {"cut", "sizes", "temporary", "bare", "times"})
    same_with_and_without(what, "");
}

// Random calls by several descriptors, names, streams, mappings and children of two files.
TEST_F(Programs, DoTheSameByManyDescriptors) {
  ferry::test::Random random;
  const auto contents = [](const std::string& path) {
    return access(path.c_str(), F_OK) == 0 ? read_file(path) : "none";
  };
  for (std::uint64_t round = 0; round < ferry::test::scaled(24) && !HasFailure(); ++round) {
    const std::string seed = std::to_string(random.below(1'000'000'000));
    SCOPED_TRACE("many_descriptors " + seed);
    const auto run_in = [&](const std::string& before) {
      const ScratchDirectory place;
      const Done done = run(before + FERRY_MANY_DESCRIPTORS " " + seed + " " + (place / "one.dat") +
                            " " + (place / "two.dat") + " " + (place / "link"));
      EXPECT_EQ(done.status, 0) << done.output;
      return std::array{done.output, contents(place / "one.dat"), contents(place / "two.dat"),
                        contents(place / "link")};
    };
    const auto without = run_in("");
    const auto with = run_in(buffered("*.dat:size=8k:count=2", ""));
    EXPECT_EQ(with[0], without[0]);
    for (std::size_t file = 1; file < 4; ++file)
      EXPECT_TRUE(same_bytes(with[file], without[file])) << file;
  }
}

TEST_F(Programs, MayHaveAnAllocatorOfTheirOwn) {
  const Done without = run(FERRY_OWN_MALLOC " " + plain_);
  const Done with = run(buffered("*.dat", summary_) + "timeout 20 " FERRY_OWN_MALLOC " " + file_);
  EXPECT_EQ(without.status, 0);
  EXPECT_EQ(with.status, 0);
  EXPECT_EQ(with.output, without.output);
  EXPECT_TRUE(same_bytes(read_file(file_), read_file(plain_)));
  EXPECT_NE(take_summary().find("100 writes of 7 bytes became 1 of 700"), std::string::npos);
}

TEST_F(Programs, BufferOnceOtherDescriptorsAreClosed) {
  const std::string summary = same_with_and_without("after", "");
  EXPECT_NE(summary.find("100 writes of 7 bytes became 1 of 700\n"), std::string::npos) << summary;
}

TEST_F(Programs, ForkDoesNotWaitForStreamsThatWaitForIt) {
  const std::string summary = same_with_and_without("forks", "");
  EXPECT_NE(summary.find("buffering ended: fork"), std::string::npos) << summary;
}

TEST_F(Programs, DescriptorsAreUsedAgain) {
  const std::string summary = same_with_and_without("fdopen", "");
  EXPECT_NE(summary.find("became 1 of 700; buffering ended: fdopen"), std::string::npos) << summary;
  EXPECT_NE(summary.find("3 writes of 6 bytes became 1 of 18"), std::string::npos) << summary;
}

TEST_F(Programs, ItGoesOnAfterAChildOfVfork) {
  const std::string summary = same_with_and_without("vfork", "");
  EXPECT_NE(summary.find("3 writes of 6 bytes became 1 of 18"), std::string::npos) << summary;
}

TEST_F(Programs, NothingIsLostAtAnyEnd) {
  EXPECT_NE(same_with_and_without("exit", "").find("100 writes of 7 bytes became 1 of 700"),
            std::string::npos);
  const std::string program = FERRY_SMALL_REQUESTS " exec ";
  const Done without = run(program + plain_);
  const Done with = run(buffered("*.dat", summary_) + program + file_);
  EXPECT_EQ(with.output, without.output);
  EXPECT_TRUE(same_bytes(read_file(file_), read_file(plain_)));
}

TEST_F(Programs, ErrorsAreToldAtClose) {
  const std::string program = FERRY_SMALL_REQUESTS " limited ";
  EXPECT_EQ(run(program + plain_).output, "1 0 1\n");
  const Done with = run(buffered("*.dat", "") + program + file_ + " 2>&1");
  EXPECT_NE(with.output.find("0 1 1\n"), std::string::npos) << with.output;
  EXPECT_NE(with.output.find("ferry-iobuf: "), std::string::npos) << with.output;
  EXPECT_EQ(ferry::test::file_size(file_), 300);
}

TEST_F(Programs, WrongSettingsAreOneLine) {
  for (const std::string settings : {"*.dat:size=5", "*.dat:size=4x", "*.dat:count=0",
                                     "*.dat:speed=1", ":size=4k", "*.dat:size=2g"}) {
    const Done done = run(buffered(settings, "") + FERRY_SMALL_REQUESTS " exit " + file_ + " 2>&1");
    EXPECT_EQ(done.status, 0);
    EXPECT_EQ(done.output.find("ferry-iobuf: FERRY_IOBUF: "), 0U) << done.output;
    EXPECT_EQ(done.output.find('\n'), done.output.size() - 1) << done.output;
    EXPECT_EQ(ferry::test::file_size(file_), 700);
  }
}

TEST_F(Programs, OthersAreLeftAlone) {
  const Done done =
      run(buffered("*.other,/nowhere/*", summary_) + FERRY_SMALL_REQUESTS " calls " + file_);
  EXPECT_EQ(done.status, 0);
  EXPECT_EQ(ferry::test::file_size(summary_), -ENOENT);
}

#ifdef FERRY_SMALL_REQUESTS_F
TEST_F(Programs, Fortran) {
  const std::string program = FERRY_SMALL_REQUESTS_F;
  const std::string settings =
      buffered("*.seq:size=64k,*.dir:size=64k:count=2,*.txt:size=16k", summary_);
  // gfortran's own buffers off: every record is a call.
  const std::string small = "GFORTRAN_UNBUFFERED_ALL=y ";
  const Done without = run(small + program + " write " + (directory_ / "plain"));
  const Done with = run(small + settings + program + " write " + (directory_ / "file"));
  EXPECT_EQ(without.status, 0) << without.output;
  EXPECT_EQ(with.status, 0) << with.output;
  EXPECT_EQ(with.output, without.output);
  for (const char* ending : {".seq", ".dir", ".txt"}) {
    EXPECT_TRUE(same_bytes(read_file((directory_ / "file") + ending),
                           read_file((directory_ / "plain") + ending)))
        << ending;
  }
  const Done read_without = run(small + program + " read " + (directory_ / "plain"));
  const Done read_with = run(small + settings + program + " read " + (directory_ / "file"));
  EXPECT_EQ(read_with.status, 0);
  EXPECT_EQ(read_with.output, read_without.output);
  const std::string summary = take_summary();
  EXPECT_EQ(summary.find("buffering ended"), std::string::npos) << summary;
  for (const char* ending : {"file.seq: ", "file.dir: ", "file.txt: "})
    EXPECT_NE(summary.find(ending), std::string::npos) << summary;
}
#endif

}  // namespace
