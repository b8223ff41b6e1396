// A child process with a signal thread: the test runs itself again.
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <string>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ferry/signals.hpp>

#include "support/within.hpp"

namespace ferry::signals_test {
namespace {

constexpr const char* marker = "FERRY_TEST_SIGNALLED_CHILD";
constexpr int interrupted = 130;

RuntimeOptions small_options() {
  RuntimeOptions options;
  options.arena_bytes = 4 << 20;
  options.device_threads = 2;
  return options;
}

// Works until its calls are refused; exits with what it saw.
[[noreturn]] void work_until_signalled(int expected_signals) {
  SignalThread::block();
  std::atomic<int> seen{0};
  int status = interrupted;
  {
    Runtime runtime(small_options());
    const SignalThread signals(runtime, std::chrono::seconds(5), [&](int) { ++seen; });
    std::atomic<bool> began{false};
    runtime.run([&](DeviceThread& self) {
      for (;;) {
        const int result = self.files.ping();
        if (result == -ESHUTDOWN) return;
        if (result != 0) status = 3;
        if (self.index == 0 && !began.exchange(true)) std::puts("ready"), std::fflush(stdout);
      }
    });
    if (signals.received() == 0) status = 4;
    if (!test::eventually([&] { return seen >= expected_signals; })) status = 5;
  }
  std::_Exit(status);
}

class Child {
 public:
  explicit Child(const std::string& expected_signals) {
    int ends[2];
    if (pipe(ends) != 0) std::abort();
    id_ = fork();
    if (id_ == 0) {
      // Ignored in what a shell starts in the background; a signal that is ignored never comes.
      for (const int number : {SIGINT, SIGTERM, SIGHUP})
        ::signal(number, SIG_DFL);
      setenv(marker, expected_signals.c_str(), 1);
      dup2(ends[1], STDOUT_FILENO);
      execl("/proc/self/exe", "child", "--gtest_filter=SignalThread.*", nullptr);
      _exit(127);
    }
    close(ends[1]);
    std::string said;
    for (char one = 0; said.find("ready") == std::string::npos && read(ends[0], &one, 1) == 1;)
      said += one;
    output_ = ends[0];
  }
  ~Child() { close(output_); }
  void signal(int number) const { kill(id_, number); }
  int status() const {
    int status = 0;
    test::within_patience("the child", [&] { waitpid(id_, &status, 0); });
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

 private:
  pid_t id_ = 0;
  int output_ = -1;
};

// The first test, so that the child runs it before any other.
TEST(SignalThread, EndsCallsOnEachOfItsSignals) {
  if (const char* expected = std::getenv(marker)) work_until_signalled(std::atoi(expected));
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    const Child child("1");
    child.signal(number);
    EXPECT_EQ(child.status(), interrupted) << "signal " << number;
  }
}

TEST(SignalThread, HearsTheSecondSignalToo) {
  const Child child("2");
  child.signal(SIGINT);
  child.signal(SIGTERM);
  EXPECT_EQ(child.status(), interrupted);
}

TEST(SignalThread, EndsWithoutASignal) {
  Runtime runtime(small_options());
  {
    const SignalThread signals(runtime);
    EXPECT_EQ(signals.received(), 0);
  }
  runtime.run([](DeviceThread& self) { EXPECT_EQ(self.files.ping(), 0); });
}

}  // namespace
}  // namespace ferry::signals_test
