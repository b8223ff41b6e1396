// Real programs above the library: what they print, and how they end, must be the same as without
// it, with ferryd and without. preads.c and positions.c look for themselves whether their reads
// are served.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/depth.hpp"
#include "support/files.hpp"

namespace {

using ferry::test::read_file;
using ferry::test::ScratchDirectory;

struct Ended {
  int status;
  std::string output;  // of both streams
};

Ended run(const std::string& command) {
  Ended ended{-1, {}};
  FILE* pipe = popen(("(" + command + ") 2>&1").c_str(), "r");
  if (pipe == nullptr) return ended;
  std::array<char, 4096> data;
  for (std::size_t got = 0; (got = fread(data.data(), 1, data.size(), pipe)) > 0;)
    ended.output.append(data.data(), got);
  ended.status = pclose(pipe);
  return ended;
}

// The bytes that preads.c expects.
constexpr long data_bytes = 300'001;
void write_data(const std::string& path, int file) {
  std::string data;
  for (long offset = 0; offset < data_bytes; ++offset)
    data.push_back(static_cast<char>(offset * 31 + offset / 251 + (file != 0 ? 7 : 0)));
  std::ofstream(path, std::ios::binary) << data;
}

std::string without_lines_of(std::string text, const std::string& begin) {
  while (text.starts_with(begin))
    text.erase(0, text.find('\n') + 1);
  for (std::size_t at = 0; (at = text.find('\n' + begin)) != std::string::npos;)
    text.erase(at + 1, text.find('\n', at + 1) - at);
  return text;
}

bool has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

class RunPrograms : public testing::Test {
 protected:
  RunPrograms() {
    write_data(directory_ / "first", 0);
    write_data(directory_ / "second", 1);
  }
  std::string environment(const std::string& socket, const std::string& more = "",
                          const std::string& library = FERRY_RUN_LIBRARY) {
    return "FERRY_RUN_SOCKET='" + socket + "' FERRY_RUN_MAP='" + directory_.path() + "' " + more +
           " LD_PRELOAD=" + library + " ";
  }
  // Runs a program once for each system call that the library makes by itself, or each allocation
  // (for every `step`-th of them by default, others each time), which fails: `run_with(settings)`,
  // with settings for its environment. Returns how many failed.
  template <class RunWith>
  std::uint64_t fail_each(const std::string& what, std::uint64_t step, ferry::test::Random& random,
                          const RunWith& run_with) {
    const std::string report = directory_ / "report";
    if (ferry::test::is_deep()) step = 1;
    std::uint64_t failed = 0;
    for (std::uint64_t n = 1 + random.below(step); !HasFailure(); n += step) {
      SCOPED_TRACE(what + std::to_string(n));
      remove(report.c_str());
      run_with(what + std::to_string(n) + " FERRY_FAIL_REPORT='" + report + "'");
      if (ferry::test::file_size(report) <= 0) break;
      if (HasFailure()) ADD_FAILURE() << "system call " << read_file(report);
      ++failed;
    }
    return failed;
  }
  // Of preads.c, or of positions.c ("read-...").
  std::string reads(const std::string& what, bool waits) {
    const bool at_position = what.rfind("read-", 0) == 0;
    return (at_position ? FERRY_POSITIONS " " + what.substr(5) : FERRY_PREADS " " + what) + " " +
           (directory_ / "first") + " " + (directory_ / "second") + (waits ? " 1" : " 0");
  }

  // On a disk: the temporary folder may be on a file system that is not served.
  ScratchDirectory directory_{ferry::test::build_folder()};
};

const std::vector<std::string> all_cases{"random",
                                         "edges",
                                         "vectors",
                                         "again-close",
                                         "again-dup2",
                                         "again-dup3",
                                         "again-fclose",
                                         "again-freopen",
                                         "again-freopen64",
                                         "again-close_range",
                                         "again-closefrom",
                                         "again-syscall_close",
                                         "again-syscall_dup3",
                                         "again-syscall_close_range",
                                         "daemon",
                                         "forks",
                                         "replaced",
                                         "handlers",
                                         "cancelled",
                                         "written",
                                         "not-served",
                                         "sandboxed",
                                         "read-calls",
                                         "read-changing",
                                         "read-threads",
                                         "read-handlers",
                                         "read-others",
                                         "read-shares-program",
                                         "read-shares-message",
                                         "read-shares-kernel",
                                         "read-shares-copy",
                                         "read-shares-stream",
                                         "read-shares-unseen",
                                         "read-shares-other"};

TEST_F(RunPrograms, WithoutFerrydAllIsAsPlain) {
  for (const std::string& what : all_cases) {
    const Ended plain = run(reads(what, false));
    ASSERT_EQ(plain.status, 0) << what << ": " << plain.output;
    for (const std::string& socket : {std::string(), directory_ / "nobody"}) {
      const Ended with = run(environment(socket) + reads(what, false));
      EXPECT_EQ(with.status, plain.status) << what;
      EXPECT_EQ(with.output, plain.output) << what;
    }
  }
}

TEST_F(RunPrograms, OtherProgramsAreAsPlain) {
  const std::string file = directory_ / "first";
  const std::string folder = directory_.path();
  for (const std::string& command : {
           "cat " + file + " | cksum",
           "cksum < " + file,
           "sha256sum " + file + " " + folder + "/missing",
           "cp " + file + " " + folder + "/copy && cmp " + file + " " + folder + "/copy",
           "dd if=" + file + " bs=777 skip=3 count=40 status=none | od -c | tail -n 3",
           "tail -c 1000 " + file + " | od -x",
           "sort " + file + " | wc -c",
           "ls -l " + file,
           "tar -C " + folder + " -cf - first second | tar -tvf -",
           "bash -c 'exec 7<" + file + "; read -r -N 5 -u 7 a; exec 7<&-; exec 7<" + folder +
               "/second; read -r -N 5 -u 7 b; printf %q \"$a$b\"; exit 7'",
           "bash -c 'for i in 1 2 3; do (cat " + file + " | head -c $i); done; kill -9 $$'",
           std::string("sh -c 'exit 3'"),
           std::string("false"),
           std::string("nothing-of-this-name"),
       }) {
    const Ended plain = run(command);
    for (const std::string& socket : {std::string(), directory_ / "nobody"}) {
      // For all programs of the command.
      const Ended with = run("export " + environment(socket) + "; " + command);
      EXPECT_EQ(with.status, plain.status) << command;
      EXPECT_EQ(with.output, plain.output) << command;
    }
  }
}

TEST_F(RunPrograms, InterpretersAreAsPlain) {
  const std::string file = directory_ / "first";
  const std::string python =
      "import os, subprocess, mmap, tempfile, threading\n"
      "f = os.open(\"" +
      file +
      "\", os.O_RDONLY)\n"
      "print([os.pread(f, 50, i * 1000) for i in range(20)])\n"
      "print(subprocess.run([\"cksum\"], stdin=f, capture_output=True).stdout)\n"
      "print(os.preadv(f, [bytearray(10), bytearray(20)], 30), os.lseek(f, 0, 1))\n"
      "m = mmap.mmap(f, 0, prot=mmap.PROT_READ); print(m[:10]); m.close()\n"
      "os.dup2(f, 30); os.close(f); print(os.pread(30, 9, 9))\n"
      "try: os.pread(f, 1, 0)\n"
      "except OSError as e: print(e)\n"
      "t = tempfile.TemporaryFile(); t.write(b\"abc\"); t.flush(); print(os.pread(t.fileno(), 9, "
      "0))\n"
      "p = os.fork()\n"
      "if p == 0: os.closerange(3, 100); os._exit(5)\n"
      "print(os.waitpid(p, 0)[1])\n";
  for (const auto& [program, command] : std::vector<std::pair<std::string, std::string>>{
           {"python3", "python3 -c '" + python + "'"},
           {"perl", "perl -e 'open(my $f, \"<\", \"" + file +
                        "\"); sysseek($f, 1000, 0); sysread($f, my $d, 30); print unpack(\"H*\", "
                        "$d); close($f); print `cksum " +
                        file + "`; exit 4'"}}) {
    if (run("command -v " + program).status != 0) continue;
    const Ended plain = run(command);
    EXPECT_FALSE(has(plain.output, "Error")) << plain.output;
    for (const std::string& socket : {std::string(), directory_ / "nobody"}) {
      const Ended with = run(environment(socket) + command);
      EXPECT_EQ(with.status, plain.status) << program;
      EXPECT_EQ(with.output, plain.output) << program;
    }
  }
}

TEST_F(RunPrograms, OtherPreloadedLibrariesSeeTheCalls) {
  // Both orders: what comes second is the next of what comes first.
  const std::string alone = FERRY_COUNTS_CALLS;
  const auto with = [&](const std::string& libraries) {
    return run("COUNTS_CALLS=1 LD_PRELOAD='" + libraries + "' " + reads("edges", false));
  };
  const Ended plain = with(alone);
  ASSERT_EQ(plain.status, 0) << plain.output;
  ASSERT_TRUE(has(plain.output, " preads, ")) << plain.output;
  for (const std::string& both :
       {alone + " " FERRY_RUN_LIBRARY, std::string(FERRY_RUN_LIBRARY " ") + alone}) {
    const Ended ended = with(both);
    EXPECT_EQ(ended.output, plain.output) << both;
    EXPECT_EQ(ended.status, 0) << both;
  }
}

#ifdef FERRY_SANITIZED_PREADS
// AddressSanitizer refuses to run behind another library unless it is told otherwise.
TEST_F(RunPrograms, ProgramsWithASanitizerAreAsPlain) {
  const std::string settings = "FERRY_RUN_SUMMARY='" + (directory_ / "summary") + "'";
  for (const std::string what : {"random", "edges", "vectors", "forks"}) {
    const std::string command = FERRY_SANITIZED_PREADS " " + what + " " + (directory_ / "first") +
                                " " + (directory_ / "second") + " 0";
    const Ended plain = run(command);
    if (plain.status != 0)
      GTEST_SKIP() << "absent: an address sanitizer that runs here: " << plain.output;
    const Ended with = run(environment(directory_ / "nobody", settings) + command);
    EXPECT_EQ(with.status, 0) << what << ": " << with.output;
    EXPECT_EQ(with.output, plain.output) << what;
  }
  EXPECT_TRUE(has(read_file(directory_ / "summary"), " no ferryd)\n"));
}
#endif

// A program whose loader is not glibc's: a copy of printenv that names one of its own.
std::string with_another_loader(const std::string& folder) {
  std::string program = read_file("/usr/bin/printenv");
  const std::size_t begin = program.find("/lib64/ld-linux");
  if (begin == std::string::npos) return {};  // elsewhere than on x86-64
  const std::string loader = program.c_str() + begin;
  const std::string own = "./ld-musl.so.1";
  if (symlink(loader.c_str(), (folder + "/" + own).c_str()) != 0) return {};
  program.replace(begin, loader.size(), own + std::string(loader.size() - own.size(), '\0'));
  const std::string path = folder + "/printenv";
  std::ofstream(path, std::ios::binary) << program;
  return chmod(path.c_str(), 0755) == 0 ? path : std::string();
}

// Loaders of other C libraries refuse to start a program with what they cannot preload.
TEST_F(RunPrograms, ProgramsThatCannotHaveItAreStartedWithoutIt) {
  const std::string other = with_another_loader(directory_.path());
  if (other.empty()) GTEST_SKIP() << "absent: a program that names glibc's loader of x86-64";
  const std::string script = directory_ / "script";
  std::ofstream(script) << "#! " << other << " \n";
  ASSERT_EQ(chmod(script.c_str(), 0755), 0);
  const std::string settings = "cd " + directory_.path() + "; LD_PRELOAD='";
  const auto preloaded = [&](const std::string& list, const std::string& way,
                             const std::string& program) {
    return run(settings + list + "' " FERRY_STARTS " " + way + " " + program + " LD_PRELOAD");
  };
  const std::string own = FERRY_RUN_LIBRARY;
  for (const std::string way : {"execve", "execv", "execvp", "execvpe", "execl", "execlp", "execle",
                                "fexecve", "execveat", "posix_spawn", "posix_spawnp"}) {
    const Ended same = preloaded(own, way, "/usr/bin/printenv");
    EXPECT_EQ(same.status, 0) << way << ": " << same.output;
    EXPECT_EQ(same.output, own + "\n") << way;
    const Ended without = preloaded(own, way, other);
    EXPECT_NE(without.status, 0) << way;  // printenv finds no such variable
    EXPECT_EQ(without.output, "") << way;
    // What else is preloaded stays.
    const Ended with_others = preloaded(own + ":" FERRY_COUNTS_CALLS, way, other);
    EXPECT_EQ(with_others.output, FERRY_COUNTS_CALLS "\n") << way;
  }
  EXPECT_EQ(preloaded(own, "execve", script).output, "");
  EXPECT_EQ(preloaded(own + ":" FERRY_COUNTS_CALLS, "execve", script).output,
            FERRY_COUNTS_CALLS "\n");
  // A folder of the name is no program.
  ASSERT_EQ(mkdir((directory_ / "before").c_str(), 0755), 0);
  ASSERT_EQ(mkdir((directory_ / "before/printenv").c_str(), 0755), 0);
  const std::string path = "PATH=" + (directory_ / "before") + ":" + directory_.path() + " ";
  EXPECT_EQ(run("cd " + directory_.path() + "; " + path + "LD_PRELOAD='" + own + "' " +
                FERRY_STARTS " execvp printenv LD_PRELOAD")
                .output,
            "");
}

TEST_F(RunPrograms, ChildrenThatNoHandlerOfForkSeesStartPrograms) {
  for (const std::string& before : {std::string(), environment(directory_ / "nobody")}) {
    const Ended ended = run(before + FERRY_STARTS " forks");
    EXPECT_EQ(ended.status, 0) << before << ": " << ended.output;
  }
}

TEST_F(RunPrograms, AWrongMapIsOneLine) {
  const Ended ended = run(
      "FERRY_RUN_SOCKET=/nowhere/s FERRY_RUN_MAP=here LD_PRELOAD=" FERRY_RUN_LIBRARY " /bin/true");
  EXPECT_EQ(ended.status, 0);
  EXPECT_EQ(ended.output,
            "ferry-run: FERRY_RUN_MAP: 'here' is not an absolute path, and is left out\n");
}

TEST_F(RunPrograms, TheSummarySaysWhyNot) {
  const std::string summary = directory_ / "summary";
  const std::string settings = "FERRY_RUN_SUMMARY='" + summary + "'";
  ASSERT_EQ(run(environment(directory_ / "nobody", settings) + reads("edges", false)).status, 0);
  const std::string text = read_file(summary);
  EXPECT_EQ(text.find("ferry-run: " + (directory_ / "first") + ": 0 reads of 0 bytes served, "), 0U)
      << text;
  EXPECT_TRUE(has(text, "2 before it was offered")) << text;
  EXPECT_TRUE(has(text, " no ferryd)\n")) << text;
  // To standard error, and nothing for files elsewhere.
  const std::string one = "FERRY_RUN_SUMMARY=-";
  EXPECT_TRUE(
      has(run(environment("/nowhere/s", one) + reads("edges", false)).output, "ferry-run: "));
  const Ended elsewhere = run("FERRY_RUN_SOCKET=/nowhere/s FERRY_RUN_MAP=/elsewhere " + one +
                              " LD_PRELOAD=" FERRY_RUN_LIBRARY " " + reads("edges", false));
  EXPECT_FALSE(has(elsewhere.output, "ferry-run: ")) << elsewhere.output;
}

// GNU tools close the stream before they end.
TEST_F(RunPrograms, TheSummaryComesBeforeStandardErrorCloses) {
  const std::string one = environment("/nowhere/s", "FERRY_RUN_SUMMARY=-");
  const std::string file = directory_ / "first";
  const Ended ended = run(one + "tail -c 7 " + file);
  EXPECT_TRUE(has(ended.output, "ferry-run: " + file + ": 0 reads")) << ended.output;
  // No line of it goes to a file of the program.
  const Ended closed = run(one + reads("closed-error", false));
  EXPECT_EQ(closed.status, 0);
  EXPECT_TRUE(has(closed.output, "ferry-run: " + file + ": ")) << closed.output;
  EXPECT_EQ(ferry::test::file_size(file + ".new"), 0);
  EXPECT_EQ(run(one + reads("other-error", false)).status, 0);
  EXPECT_EQ(ferry::test::file_size(file + ".new"), 0);
}

#ifdef FERRY_FERRYD
// ferryd as it is started in the background.
class ServedPrograms : public RunPrograms {
 protected:
  void SetUp() override {
    std::array<int, 2> ends{};
    ASSERT_EQ(pipe2(ends.data(), O_CLOEXEC), 0);
    const std::string wishes = R"({"action": "serve", "socket": ")" + socket_ +
                               R"(", "cache_bytes": 67108864, "idle_s": 0})";
    ferryd_ = fork();
    ASSERT_GE(ferryd_, 0);
    if (ferryd_ == 0) {
      dup2(ends[1], STDOUT_FILENO);
      execl(FERRY_FERRYD, FERRY_FERRYD, wishes.c_str(), nullptr);
      _exit(127);
    }
    close(ends[1]);
    pollfd ready{ends[0], POLLIN, 0};
    std::array<char, 256> line{};
    const bool answers = poll(&ready, 1, 30'000) == 1 && read(ends[0], line.data(), 255) > 0;
    close(ends[0]);
    ASSERT_TRUE(answers && has(line.data(), "\"ready\"")) << line.data();
  }
  void TearDown() override {
    if (ferryd_ <= 0) return;
    kill(ferryd_, SIGTERM);
    int status = 0;
    EXPECT_EQ(waitpid(ferryd_, &status, 0), ferryd_);
    EXPECT_EQ(status, 0);
  }

  // The summary.
  std::string served(const std::string& what) {
    const std::string summary = directory_ / "summary";
    remove(summary.c_str());
    const Ended plain = run(reads(what, false));
    const Ended with =
        run(environment(socket_, "FERRY_RUN_SUMMARY='" + summary + "'") + reads(what, true));
    EXPECT_EQ(plain.status, 0) << plain.output;
    EXPECT_EQ(with.status, 0) << with.output;
    EXPECT_EQ(with.output, plain.output);
    return ferry::test::file_size(summary) > 0 ? read_file(summary) : std::string();
  }

  const std::string socket_ = directory_ / "ferry/ferryd.sock";
  pid_t ferryd_ = -1;
};

class ServedCases : public ServedPrograms, public testing::WithParamInterface<std::string> {};

TEST_P(ServedCases, ReadTheSameBytes) {
  const std::string summary = served(GetParam());
  if (GetParam() == "daemon") return;  // the process that read ends inside daemon(), unseen
  EXPECT_TRUE(has(summary, "ferry-run: " + (directory_ / "first") + ": ")) << summary;
  EXPECT_FALSE(has(summary, "first: 0 reads")) << summary;
}
INSTANTIATE_TEST_SUITE_P(All, ServedCases, testing::ValuesIn(all_cases), [](const auto& one) {
  std::string name = one.param;
  for (char& letter : name)
    if (letter == '-') letter = '_';
  return name;
});

TEST_F(ServedPrograms, TheSummaryCounts) {
  const std::string summary = served("random");
  EXPECT_TRUE(has(summary, " bytes served, ")) << summary;
  EXPECT_TRUE(has(summary, "(2 before it was offered")) << summary;
  EXPECT_TRUE(has(served("written"), " open for writing"));
}

// What the program reads and prints is as it is without the library.
TEST_F(ServedPrograms, EachSystemCallAndAllocationOfTheLibraryMayFail) {
  ferry::test::Random random;
  std::uint64_t points = 0;
  for (const std::string what :
       {"edges", "vectors", "again-dup2", "again-close", "again-syscall_close_range", "daemon",
        "forks", "written", "not-served", "read-calls", "read-others", "read-shares-program",
        "read-shares-stream", "read-shares-other"}) {
    SCOPED_TRACE(what);
    served(what);  // ferryd has the files from now on
    const Ended plain = run(reads(what, false));
    const auto run_with = [&](const std::string& settings) {
      const std::string summary = " FERRY_RUN_SUMMARY='" + (directory_ / "summary") + "'";
      const Ended with = run(environment(socket_, settings + summary, FERRY_FAILING_RUN_LIBRARY) +
                             "timeout 60 " + reads(what, false));
      EXPECT_EQ(with.status, plain.status);
      EXPECT_EQ(without_lines_of(with.output, "ferry-run: FERRY_RUN_SUMMARY: "), plain.output);
    };
    for (const std::string each :
         {"FERRY_FAIL_CALL=", "FERRY_FAIL_ALLOCATION=", "FERRY_FAIL_ON=1 FERRY_FAIL_ALLOCATION="})
      points += fail_each(each, 8, random, run_with);
  }
  std::cout << "[  POINTS  ] " << points << '\n';
  EXPECT_GT(points, 0U) << "no point was reached";
}

// A program that buffers is told of an error by a call, or by a line at its end; else its file is
// as it is without the library.
TEST_F(RunPrograms, EachSystemCallOfABufferedProgramMayFail) {
  ferry::test::Random random;
  std::uint64_t points = 0;
  const std::string plain_file = directory_ / "plain.dat";
  const std::string file = directory_ / "file.dat";
  for (const std::string what :
       {"stdio", "fork", "dup", "twice", "fdopen", "exit", "exec", "system", "vfork"}) {
    SCOPED_TRACE(what);
    const std::string program = std::string("timeout 60 " FERRY_SMALL_REQUESTS " ") + what + " ";
    remove(plain_file.c_str());
    const Ended plain = run(program + plain_file);
    ASSERT_EQ(plain.status, 0) << plain.output;
    points += fail_each("FERRY_FAIL_CALL=", 8, random, [&](const std::string& settings) {
      remove(file.c_str());
      const Ended with = run("FERRY_IOBUF='*.dat:size=64k' FERRY_IOBUF_SUMMARY='' " + settings +
                             " LD_PRELOAD=" FERRY_FAILING_RUN_LIBRARY " " + program + file);
      EXPECT_TRUE(WIFEXITED(with.status) && WEXITSTATUS(with.status) <= 1) << with.status;
      const bool is_told = with.status != 0 || has(with.output, "ferry-iobuf: ");
      if (is_told) return;
      EXPECT_EQ(with.output, plain.output);
      EXPECT_TRUE(ferry::test::same_bytes(read_file(file), read_file(plain_file)));
    });
  }
  std::cout << "[  POINTS  ] " << points << '\n';
  EXPECT_GT(points, 0U) << "no point was reached";
}

// Small requests need no memory, so nothing of what a program does fails.
TEST_F(RunPrograms, EachAllocationOfABufferedProgramMayFail) {
  ferry::test::Random random;
  std::uint64_t points = 0;
  const std::string plain_file = directory_ / "plain.dat";
  const std::string file = directory_ / "file.dat";
  const std::string errors = directory_ / "errors";
  for (const std::string what :
       {"calls", "stdio", "fork", "dup", "twice", "fdopen", "exit", "exec", "system", "vfork"}) {
    const std::string program = std::string("timeout 60 " FERRY_SMALL_REQUESTS " ") + what + " ";
    remove(plain_file.c_str());
    const Ended plain = run(program + plain_file);
    ASSERT_EQ(plain.status, 0) << plain.output;
    for (const std::string more : {"", "FERRY_FAIL_ON=1 "}) {
      SCOPED_TRACE(what + " " + more);
      points +=
          fail_each(more + "FERRY_FAIL_ALLOCATION=", 8, random, [&](const std::string& settings) {
            remove(file.c_str());
            const Ended with =
                run("FERRY_IOBUF='*.dat:size=64k' FERRY_IOBUF_SUMMARY='" +
                    (directory_ / "summary") + "' LD_PRELOAD=" FERRY_FAILING_RUN_LIBRARY " " +
                    settings + " " + program + file + " 2>" + errors);
            EXPECT_EQ(with.status, plain.status);
            EXPECT_EQ(with.output, plain.output);
            EXPECT_EQ(
                without_lines_of(read_file(errors), "ferry-iobuf: no memory for the settings"), "");
            EXPECT_TRUE(ferry::test::same_bytes(read_file(file), read_file(plain_file)));
          });
    }
  }
  std::cout << "[  POINTS  ] " << points << '\n';
  EXPECT_GT(points, 0U) << "no point was reached";
}

// As cat makes them, where it does not write to a terminal or a pipe.
TEST_F(RunPrograms, TheSummaryTellsOfCopiesByTheKernel) {
  const std::string summary = directory_ / "summary";
  const std::string from = directory_ / "from";
  const std::string to = directory_ / "to";
  ferry::test::write_file(from, "hello\n");
  const Ended ended =
      run(environment(directory_ / "nobody", "FERRY_RUN_SUMMARY='" + summary + "'") + "cat '" +
          from + "' > '" + to + "'");
  EXPECT_EQ(ended.status, 0) << ended.output;
  EXPECT_EQ(read_file(to), "hello\n");
  const std::string text = read_file(summary);
  EXPECT_EQ(text.find("ferry-run: " + from + ": 0 reads of 0 bytes served, "), 0U) << text;
}

TEST_F(ServedPrograms, BufferedFilesAreNotServed) {
  const std::string summary = directory_ / "summary";
  const Ended ended =
      run(environment(socket_, "FERRY_IOBUF=first FERRY_IOBUF_SUMMARY='' FERRY_RUN_SUMMARY='" +
                                   summary + "'") +
          reads("edges", false));
  EXPECT_EQ(ended.status, 0) << ended.output;
  EXPECT_EQ(ferry::test::file_size(summary), -ENOENT);
}

TEST_F(ServedPrograms, ItMayDieAtAnyTime) {
  // Reads go on, by the kernel, and are right; the program does not wait for hits that never come.
  const std::string program = environment(socket_) + reads("handlers", false);
  Ended ended{-1, {}};
  std::thread reader([&] { ended = run(program); });
  usleep(200'000);  // somewhere in the middle: any moment must do
  kill(ferryd_, SIGKILL);
  int status = 0;
  EXPECT_EQ(waitpid(ferryd_, &status, 0), ferryd_);
  ferryd_ = -1;
  reader.join();
  EXPECT_EQ(ended.status, 0) << ended.output;
}
#endif

}  // namespace
