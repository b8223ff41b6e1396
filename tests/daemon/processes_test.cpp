// ferryd as a process of its own, and processes that are killed.
#include <algorithm>
#include <chrono>
#include <csignal>
#include <functional>
#include <optional>
#include <string>

#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "base/socket_messages.hpp"
#include "daemon/daemon_rig.hpp"
#include "support/depth.hpp"
#include "support/error_of.hpp"
#include "support/other_process.hpp"

namespace {

using ferry::daemon::Client;
using ferry::test::Descriptor;
using ferry::test::eventually;
using ferry::test::OfferedFile;
using ferry::test::OtherProcess;
using ferry::test::ScratchDirectory;
using ferry::test::status_of;
using Command = OtherProcess::Command;

// The program `ferryd`, killed with the object.
class DaemonProcess {
 public:
  explicit DaemonProcess(std::string socket) : socket_(std::move(socket)) { start(); }
  ~DaemonProcess() { kill_it(); }
  void start() {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const std::string wishes =
        R"({"action":"serve","cache_bytes":8388608,"idle_s":0,"socket":")" + socket_ + "\"}";
    child_ = fork();
    if (child_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      dup2(ends[1], STDOUT_FILENO);
      execl(FERRYD_PROGRAM, "ferryd", wishes.c_str(), nullptr);
      _exit(127);
    }
    close(ends[1]);
    const Descriptor output(ends[0]);
    std::string line;
    char one = 0;
    while (line.find('\n') == std::string::npos && read(output, &one, 1) == 1)
      line += one;
    ASSERT_NE(line.find("\"ready\":true"), std::string::npos) << line;
  }
  void kill_it() {
    if (child_ <= 0) return;
    kill(child_, SIGKILL);
    waitpid(child_, nullptr, 0);
    child_ = -1;
  }
  pid_t process() const { return child_; }

 private:
  const std::string socket_;
  pid_t child_ = -1;
};

class DaemonProcesses : public testing::Test {
 protected:
  std::string socket() const { return folder_ / "run/ferryd.sock"; }
  std::string file(const std::string& name, const std::string& contents) const {
    ferry::test::write_file(files_ / name, contents);
    return files_ / name;
  }
  OtherProcess other_;  // before any thread
  ScratchDirectory folder_;
  ScratchDirectory files_{ferry::test::build_folder()};
};

// A flock lock lasts as long as any process has the open file, an fcntl lock until its process
// closes any descriptor of the file.
TEST_F(DaemonProcesses, OffersNeitherKeepNorEndLocks) {
  DaemonProcess daemon(socket());
  Client client(socket().c_str());
  const std::string path = file("data", "some bytes");
  const Descriptor holder(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct flock whole {};
  whole.l_type = F_RDLCK;
  ASSERT_EQ(fcntl(holder, F_SETLK, &whole), 0);
  ferry::daemon::ServedFile served;
  ASSERT_TRUE(eventually([&] { return client.offer(holder, served) == 0; }));
  const Descriptor looker(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  whole.l_type = F_WRLCK;
  ASSERT_EQ(fcntl(looker, F_OFD_GETLK, &whole), 0);
  EXPECT_EQ(whole.l_type, F_RDLCK) << "the offer has ended it";

  kill(daemon.process(), SIGSTOP);
  ASSERT_EQ(waitpid(daemon.process(), nullptr, WUNTRACED), daemon.process());
  {
    const Descriptor locked(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    ASSERT_EQ(flock(locked, LOCK_SH | LOCK_NB), 0);
    EXPECT_EQ(client.offer(locked, served), ETIMEDOUT);
  }
  const Descriptor next(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(flock(next, LOCK_EX | LOCK_NB), 0) << "the offer keeps it";
  kill(daemon.process(), SIGCONT);
}

// At random moments. A change after the kill is never hidden by what readers still have mapped.
TEST_F(DaemonProcesses, KilledDaemonsHideNoChange) {
  DaemonProcess daemon(socket());
  Client client(socket().c_str());
  ferry::test::Random random;
  std::string contents = OtherProcess::data_of(1, 200'000);
  const std::string path = file("data", contents);
  OfferedFile opened(client, path);
  std::string got;
  for (std::uint64_t seed = 2; seed < 2 + ferry::test::scaled(40); ++seed) {
    ASSERT_EQ(opened.read(got, contents.size(), 0), static_cast<std::int64_t>(contents.size()));
    ASSERT_EQ(got, contents);
    std::atomic<bool> changed{false};
    std::jthread reader([&] {
      std::string mine;
      while (true) {
        const bool was_changed = changed.load();
        const std::int64_t n = opened.try_read(mine, 1000, 100'000);
        EXPECT_FALSE(n >= 0 && was_changed) << "a hit after the change";
        if (was_changed) return;
      }
    });
    std::this_thread::sleep_for(std::chrono::microseconds(random.below(2000)));
    daemon.kill_it();
    ASSERT_EQ(other_.ask(Command::write, path, 0, contents.size(), seed), 0);
    changed.store(true);
    reader.join();
    contents = OtherProcess::data_of(seed, contents.size());
    EXPECT_EQ(opened.try_read(got, 10, 0), Client::gone);
    daemon.start();
    ASSERT_TRUE(eventually([&] { return opened.offer() == 0; }));
  }
}

// The first file of a new ferryd is not taken for the first of the one before.
TEST_F(DaemonProcesses, FilesOfAnotherDaemonAreNotMistaken) {
  DaemonProcess daemon(socket());
  Client client(socket().c_str());
  const std::string data_of_a = OtherProcess::data_of(1, 10'000);
  const std::string data_of_b = OtherProcess::data_of(2, 20'000);
  OfferedFile a(client, file("a", data_of_a));
  OfferedFile b(client, file("b", data_of_b));
  std::string got;
  ASSERT_EQ(a.read(got, 100'000, 0), 10'000);
  ASSERT_EQ(b.read(got, 100'000, 0), 20'000);
  daemon.kill_it();
  daemon.start();
  ASSERT_TRUE(eventually([&] { return b.offer() == 0; }));
  ASSERT_EQ(b.read(got, 100'000, 0), 20'000);
  EXPECT_EQ(got, data_of_b);
  EXPECT_EQ(a.try_read(got, 100, 0), Client::gone);
  EXPECT_EQ(client.size_bytes(a.served()), Client::gone);
  ASSERT_EQ(a.offer(), 0);
  ASSERT_EQ(a.read(got, 100'000, 0), 10'000);
  EXPECT_EQ(got, data_of_a);
}

// A process that reads all the time, which finds what the file holds and never waits.
class Survivor {
 public:
  Survivor(const std::string& socket, const std::string& path, const std::string& contents) {
    child_ = fork();
    if (child_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      read_on(socket, path, contents);
    }
  }
  ~Survivor() { end(); }
  // Its wait status: ended by SIGTERM if all was well.
  int end() {
    int status = 0;
    if (child_ > 0) {
      kill(child_, SIGTERM);
      waitpid(child_, &status, 0);
    }
    child_ = -1;
    return status;
  }

 private:
  static rusage usage() {
    rusage now{};
    getrusage(RUSAGE_SELF, &now);
    return now;
  }
  // Asleep or spinning, and not for a CPU on a busy machine.
  static bool has_waited(const rusage& before) {
    const rusage now = usage();
    timeval used{};
    timersub(&now.ru_utime, &before.ru_utime, &used);
    return now.ru_nvcsw > before.ru_nvcsw || used.tv_sec >= 1;
  }
  [[noreturn]] static void read_on(const std::string& socket, const std::string& path,
                                   const std::string& contents) {
    constexpr std::uint64_t bytes = 70'000;
    Client client(socket.c_str());
    OfferedFile opened(client, path);
    ferry::test::Random offsets;
    std::string got;
    while (true) {
      const std::uint64_t offset = offsets.below(contents.size() - bytes);
      const auto begin = std::chrono::steady_clock::now();
      const rusage before = usage();
      const std::int64_t result = opened.try_read(got, bytes, offset);
      if (std::chrono::steady_clock::now() - begin > std::chrono::seconds(1) && has_waited(before))
        _exit(2);
      if (result != Client::missed &&
          (result != bytes || contents.compare(offset, bytes, got) != 0))
        _exit(1);
    }
  }
  pid_t child_ = -1;
};

// Ends the survivor; then nothing of those that were killed is left, and the file can be read.
void expect_nothing_left(const std::string& socket, const std::string& path,
                         const std::string& contents, Survivor& survivor) {
  EXPECT_TRUE(eventually([&] { return status_of(socket).clients == 1; }));
  const int status = survivor.end();
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM)
      << "wrong bytes (256) or a wait (512): " << status;
  EXPECT_TRUE(eventually([&] { return status_of(socket).clients == 0; }));
  Client client(socket.c_str());
  OfferedFile opened(client, path);
  constexpr std::uint64_t step = 400'000;
  std::string got;
  for (std::uint64_t at = 0; at < contents.size(); at += step) {
    const std::uint64_t bytes = std::min<std::uint64_t>(step, contents.size() - at);
    ASSERT_EQ(opened.read(got, bytes, at), static_cast<std::int64_t>(bytes));
    ASSERT_TRUE(contents.compare(at, bytes, got) == 0);
  }
}

// Clients die at random moments; their places and marks are free, and the others read on.
TEST_F(DaemonProcesses, KilledClientsLeaveNothing) {
  DaemonProcess daemon(socket());
  ferry::test::Random random;
  const std::string contents = OtherProcess::data_of(1, 400'000);
  const std::string path = file("data", contents);
  const auto read_on = [&] {
    Client client(socket().c_str());
    OfferedFile opened(client, path);
    std::string got;
    while (true)
      opened.try_read(got, 70'000, static_cast<std::uint64_t>(rand()) % 400'000);
  };
  Survivor survivor(socket(), path, contents);
  // More in all than there are places.
  for (std::uint64_t round = 0; round < ferry::test::scaled(250); ++round) {
    std::vector<pid_t> children;
    for (int i = 0; i < 2; ++i) {
      const pid_t child = fork();
      if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        read_on();
      }
      children.push_back(child);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random.below(5000)));
    for (const pid_t child : children) {
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    }
  }
  expect_nothing_left(socket(), path, contents, survivor);
}

// What became of a child that was stepped.
struct Stepped {
  enum class End { killed, finished, failed };
  End end = End::failed;
  std::int64_t instructions = 0;
};

// A child that calls `work` between two SIGSTOPs, once `ready` has said that it can. It is killed
// when it has made `most` instructions after the first, or at the second.
Stepped step_and_kill(std::int64_t most, const std::function<bool()>& ready,
                      const std::function<void()>& work) {
  const pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (!ready() || ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(1);
    raise(SIGSTOP);
    work();
    raise(SIGSTOP);
    _exit(1);
  }
  Stepped stepped;
  int status = 0;
  waitpid(child, &status, 0);
  const auto stopped_by = [&](int signal) {
    return WIFSTOPPED(status) && WSTOPSIG(status) == signal;
  };
  bool goes_on = stopped_by(SIGSTOP);
  while (goes_on && stepped.instructions < most &&
         ptrace(PTRACE_SINGLESTEP, child, nullptr, nullptr) == 0) {
    waitpid(child, &status, 0);
    goes_on = stopped_by(SIGTRAP);
    stepped.instructions += goes_on ? 1 : 0;
  }
  if (goes_on && stepped.instructions == most) stepped.end = Stepped::End::killed;
  if (stepped.instructions > 0 && stopped_by(SIGSTOP)) stepped.end = Stepped::End::finished;
  if (WIFSTOPPED(status)) {
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
  }
  return stepped;
}

// The same after many numbers of instructions; deep: after nearly each. The cache is smaller than
// the file, which the survivor reads all over, so pages are evicted all the time. A mark that is
// left behind is not seen here: the model (clients in verification/checks.py) finds that.
TEST_F(DaemonProcesses, ClientsKilledWhileTheyAreSteppedLeaveNothing) {
  constexpr std::int64_t no_end = 2'000'000;
  const auto at_once = [] { return true; };
  if (step_and_kill(1, at_once, [] {}).end != Stepped::End::killed)
    GTEST_SKIP() << "absent: this process may not trace its children";
  DaemonProcess daemon(socket());
  ferry::test::Random random;
  const std::string contents = OtherProcess::data_of(1, 12'000'000);
  const std::string path = file("data", contents);
  Survivor survivor(socket(), path, contents);
  std::optional<Client> client;
  std::optional<OfferedFile> opened;
  std::string got(512, ' ');
  std::uint64_t offset = 0;
  const auto connect = [&] {
    client.emplace(socket().c_str());
    opened.emplace(*client, path);
  };
  const auto connected = [&] {
    connect();
    return opened->error() == 0;
  };
  const auto with_a_page = [&] { return connected() && opened->read(got, 512, offset) == 512; };
  const auto read = [&] { opened->try_read(got, 512, offset); };
  const auto kill_all_over = [&](const auto& ready, const auto& work) {
    const Stepped whole = step_and_kill(no_end, ready, work);
    ASSERT_EQ(whole.end, Stepped::End::finished);
    const auto points = static_cast<std::int64_t>(ferry::test::scaled(50));
    const std::int64_t step = std::max<std::int64_t>(1, whole.instructions / points);
    std::int64_t at = 1 + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(step)));
    for (; at < whole.instructions; at += step) {
      offset = random.below(contents.size() - 512);
      ASSERT_NE(step_and_kill(at, ready, work).end, Stepped::End::failed) << at;
    }
  };
  kill_all_over(with_a_page, read);  // nearly always a hit
  kill_all_over(connected, read);    // often a miss
  kill_all_over(at_once, connect);
  expect_nothing_left(socket(), path, contents, survivor);
}

TEST_F(DaemonProcesses, OneForEachSocket) {
  DaemonProcess daemon(socket());
  EXPECT_EQ(ferry::test::error_of([&] { ferry::daemon::ListeningSocket second(socket()); }),
            EADDRINUSE);
  daemon.kill_it();
  // Its socket is still there.
  struct stat status {};
  ASSERT_EQ(lstat(socket().c_str(), &status), 0);
  daemon.start();
  EXPECT_EQ(status_of(socket()).pid, daemon.process());
}

TEST_F(DaemonProcesses, FoldersThatOthersMayEnterAreRefused) {
  const std::string folder = folder_ / "open";
  ASSERT_EQ(mkdir(folder.c_str(), 0755), 0);
  const auto listens = [&](const std::string& path) {
    return ferry::test::error_of([&] { ferry::daemon::ListeningSocket socket(path); });
  };
  EXPECT_EQ(listens(folder + "/ferryd.sock"), EACCES);
  ASSERT_EQ(chmod(folder.c_str(), 0700), 0);
  EXPECT_EQ(listens(folder + "/ferryd.sock"), 0);
  EXPECT_EQ(listens(folder + "/" + std::string(200, 'x')), ENAMETOOLONG);
  EXPECT_EQ(listens("ferryd.sock"), EINVAL);
  ASSERT_EQ(symlink(folder.c_str(), (folder_ / "link").c_str()), 0);
  EXPECT_EQ(listens(folder_ / "link/ferryd.sock"), ENOTDIR);
}

TEST_F(DaemonProcesses, WhatIsNoRequestHarmsNobody) {
  DaemonProcess daemon(socket());
  std::vector<std::unique_ptr<Descriptor>> silent;
  for (int i = 0; i < 3; ++i)  // they connect and say nothing
    silent.push_back(
        std::make_unique<Descriptor>(ferry::daemon::connect_to(socket().c_str(), 1000)));
  ferry::test::Random random;
  for (std::uint64_t i = 0; i < ferry::test::scaled(200); ++i) {
    const Descriptor connection(ferry::daemon::connect_to(socket().c_str(), 10'000));
    ASSERT_GE(connection, 0);
    std::string noise = ferry::test::pattern(random.below(200), random.bits());
    if (random.one_in(2)) {  // nearly right
      ferry::daemon::DaemonRequest request;
      request.kind = static_cast<ferry::daemon::RequestKind>(random.below(5) == 4 ? 99 : 3);
      if (random.one_in(3)) ++request.version;
      noise.assign(reinterpret_cast<const char*>(&request), sizeof request);
      if (random.one_in(4)) noise.resize(random.below(sizeof request));
    }
    const Descriptor other(random.one_in(2) ? open("/dev/null", O_RDONLY) : -1);
    if (noise.empty()) continue;
    ferry::send_message(connection, noise.data(), noise.size(), other);
  }
  EXPECT_EQ(status_of(socket()).pid, daemon.process());
}

}  // namespace
