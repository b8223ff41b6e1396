// ferry-mount: programs in a namespace with maps, as a user without and with the right to mount.
#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "support/files.hpp"
#include "support/in_a_child.hpp"
#include "support/within.hpp"

namespace {

using ferry::test::eventually;
using ferry::test::ScratchDirectory;
using ferry::test::write_file;

struct Ended {
  int status;
  std::string output;  // of both streams
};

class FuseNamespaces : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(at("source/folder"));
    std::filesystem::create_directories(at("place"));
    write_file(at("source/file"), "contents\n");
    const Ended probe = mapped("true");
    if (probe.status != 0) GTEST_SKIP() << "absent: " << probe.output;
  }
  std::string at(const std::string& name) const { return folder_ / name; }
  // A shell's words, with the source at place; `before` stands before the command.
  Ended mapped(const std::string& words, const std::string& before = "") const {
    return run(before + " " FERRY_MOUNT_PROGRAM " '[" + map("place", at("source")) +
               "]' /bin/sh sh -c '" + words + "'");
  }
  std::string map(const std::string& place, const std::string& target) const {
    return R"({"folder": ")" + at(place) + R"(", "target": ")" + target + R"("})";
  }
  Ended run(const std::string& command) const {
    Ended ended{-1, {}};
    FILE* pipe = popen(("cd " + folder_.path() + " && (" + command + ") 2>&1").c_str(), "r");
    if (pipe == nullptr) return ended;
    std::array<char, 4096> data;
    for (std::size_t got = 0; (got = fread(data.data(), 1, data.size(), pipe)) > 0;)
      ended.output.append(data.data(), got);
    const int status = pclose(pipe);
    ended.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return ended;
  }
  // The processes that serve this test's files.
  int servers() const {
    int count = 0;
    for (const auto& process : std::filesystem::directory_iterator("/proc")) {
      std::ifstream words(process.path() / "cmdline");
      std::string line;
      std::getline(words, line);
      if (line.find("ferry-mount") != std::string::npos &&
          line.find(folder_.path()) != std::string::npos)
        ++count;
    }
    return count;
  }

  ScratchDirectory folder_{ferry::test::build_folder()};
};

TEST_F(FuseNamespaces, AProgramFindsTheFilesAndNobodyElseDoes) {
  const Ended ended = mapped("cat place/file; echo more >place/folder/new; ls place; exit 7");
  EXPECT_EQ(ended.output, "contents\nfile\nfolder\n");
  EXPECT_EQ(ended.status, 7);
  EXPECT_EQ(ferry::test::read_file(at("source/folder/new")), "more\n");
  EXPECT_TRUE(std::filesystem::is_empty(at("place")));
  EXPECT_TRUE(eventually([&] { return servers() == 0; }));
}

TEST_F(FuseNamespaces, AUserWithoutTheRightToMount) {
  const std::string before =
      "setpriv --bounding-set=-sys_admin --inh-caps=-sys_admin --ambient-caps=-sys_admin";
  const Ended probe = run(before + " unshare --user true");
  if (probe.status != 0) GTEST_SKIP() << "absent: " << probe.output;
  const Ended ended = mapped(
      "id -u; cat place/file; touch place/new; chmod 600 place/new;"
      "stat -c %u:%a place/new",
      before);
  EXPECT_EQ(ended.output, "0\ncontents\n0:600\n");
  EXPECT_EQ(ended.status, 0);
}

TEST_F(FuseNamespaces, TheServerStaysAsLongAsAProcessThere) {
  const Ended ended =
      mapped("(sleep 1; cat place/file >late; echo done >>place/file) >/dev/null 2>&1 &");
  EXPECT_EQ(ended.status, 0);
  EXPECT_TRUE(eventually([&] { return servers() == 0; }));
  EXPECT_EQ(ferry::test::read_file(at("late")), "contents\n");
  EXPECT_EQ(ferry::test::read_file(at("source/file")), "contents\ndone\n");
}

// As kernels before 5.9 do, and filters of containers.
bool refuse_close_range() {
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close_range, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{std::size(code), code};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

TEST_F(FuseNamespaces, TheServerKeepsNothingOfTheProgramsOpen) {
  write_file(at("held"), "x");
  const std::string look = "for p in /proc/[0-9]*; do grep -qs " + folder_.path() +
                           " $p/cmdline && [ $(cat $p/comm) = ferry-mount ] && ls -l $p/fd; done";
  const auto is_held = [&](bool is_refused) {
    if (is_refused && !refuse_close_range()) return 77;
    const Ended ended = mapped(look, "exec 3<held 4<held 9<held;");
    if (ended.output.find("/dev/fuse") == std::string::npos) return 2;
    return ended.output.find("held") == std::string::npos ? 0 : 1;
  };
  EXPECT_EQ(is_held(false), 0);
  const int beside_an_old_kernel = ferry::test::in_a_child([&] { return is_held(true); });
  if (beside_an_old_kernel == 77) GTEST_SKIP() << "absent: filters of system calls";
  EXPECT_EQ(beside_an_old_kernel, 0);
}

TEST_F(FuseNamespaces, AServerThatIsKilledIsAnError) {
  // Its children are none of the program's: it looks for them by name. A call that the server dies
  // under has another error.
  const Ended ended = mapped(
      "for p in /proc/[0-9]*; do [ \"$(cat $p/comm 2>/dev/null)\" = ferry-mount ] && "
      "grep -q " +
      folder_.path() +
      " $p/cmdline && kill -9 ${p#/proc/}; done; "
      "for i in $(seq 100); do cat place/file 2>&1 | grep -q connected && break; "
      "sleep 0.1; done; cat place/file");
  EXPECT_NE(ended.output.find("not connected"), std::string::npos) << ended.output;
  EXPECT_EQ(ended.status, 1);
}

TEST_F(FuseNamespaces, AMapMayLieInAnother) {
  std::filesystem::create_directories(at("inner"));
  write_file(at("inner/deep"), "deep\n");
  const Ended ended =
      run(std::string(FERRY_MOUNT_PROGRAM " '[") + map("place/folder", at("inner")) + "," +
          map("place", at("source")) + "]' /bin/cat cat place/file place/folder/deep");
  EXPECT_EQ(ended.output, "contents\ndeep\n");
}

TEST_F(FuseNamespaces, WhatIsWrongIsOneLine) {
  struct Case {
    std::string command;
    std::string says;
    int status;
  };
  const std::string mount = FERRY_MOUNT_PROGRAM " '[";
  for (const Case& one :
       {Case{FERRY_MOUNT_PROGRAM " 5 /bin/true true", "usage: ", 2},
        Case{mount + map("place", at("source")) + "]'", "usage: ", 2},
        Case{mount + map("place", at("missing")) + "]' /bin/true true", "No such file", 1},
        Case{mount + map("place", at("source/file")) + "]' /bin/true true", "Not a directory", 1},
        Case{mount + map("missing", at("source")) + "]' /bin/true true", "mounting at ", 1},
        Case{mount + map("place", "nfs://127.0.0.1:1/x") + "]' /bin/true true", "NFS server", 1},
        Case{mount + map("place", at("source")) + "]' /missing missing", "cannot be executed", 127},
        Case{mount + map("place", at("source")) + "]' /etc/passwd x", "cannot be executed", 126}}) {
    const Ended ended = run(one.command);
    EXPECT_EQ(ended.status, one.status) << one.command;
    EXPECT_EQ(ended.output.find("ferry: "), 0U) << ended.output;
    EXPECT_NE(ended.output.find(one.says), std::string::npos) << ended.output;
    EXPECT_EQ(std::count(ended.output.begin(), ended.output.end(), '\n'), 1) << ended.output;
  }
  EXPECT_TRUE(eventually([&] { return servers() == 0; }));
}

}  // namespace
