#include "simulator/simulator.hpp"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <utility>

#include <execinfo.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "simulator/real_calls.hpp"
#include "simulator/scheduler.hpp"

namespace ferry::simulator {
namespace {

constexpr unsigned patience_s = 60;

// Handing a turn over is cheap only on the same CPU.
void stay_on_one_cpu() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int cpu = sched_getcpu();
  if (cpu < 0) return;
  CPU_SET(static_cast<std::size_t>(cpu), &set);
  sched_setaffinity(0, sizeof set, &set);
}

[[noreturn]] void run_child(std::uint64_t seed, const std::function<void()>& program, int numbers) {
  stay_on_one_cpu();
  alarm(patience_s);
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGABRT, SIGILL, SIGALRM}) {
    std::signal(signal, [](int got) {
      std::fprintf(stderr, "signal %d", got);
      if (got == SIGALRM) std::fputs(": the run takes too long", stderr);
      std::fputs("\n", stderr);
      void* frames[40];
      backtrace_symbols_fd(frames, backtrace(frames, 40), STDERR_FILENO);
      _exit(2);
    });
  }
  static TurnScheduler only(seed);
  scheduler = &only;
  only.begin();
  try {
    program();
  } catch (const std::exception& error) {
    only.fail(std::string("an exception: ") + error.what());
  }
  const std::string problem = only.end();
  SimulatedRun run;
  only.fill(run);
  run.failed = !problem.empty();
  if (run.failed) std::fprintf(stderr, "%s\n", problem.c_str());
  std::fflush(stderr);
  const std::uint64_t words[] = {run.digest, run.points, run.switches, run.simulated_ns, run.calls};
  static_cast<void>(!::write(numbers, words, sizeof words));
  _exit(run.failed ? 1 : 0);
}

}  // namespace

SimulatedRun simulate(std::uint64_t seed, const std::function<void()>& program) {
  int text[2];
  int numbers[2];
  SimulatedRun run;
  std::fflush(nullptr);
  if (pipe(text) != 0 || pipe(numbers) != 0) {
    run.failed = true;
    run.report = "no pipe";
    return run;
  }
  const pid_t child = fork();
  if (child == 0) {
    dup2(text[1], STDERR_FILENO);
    run_child(seed, program, numbers[1]);
  }
  close(text[1]);
  close(numbers[1]);
  char buffer[4096];
  for (ssize_t got = 0; (got = read(text[0], buffer, sizeof buffer)) > 0;)
    run.report.append(buffer, static_cast<std::size_t>(got));
  std::uint64_t words[5] = {};
  const bool finished = read(numbers[0], words, sizeof words) == sizeof words;
  close(text[0]);
  close(numbers[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR)
    continue;
  run.digest = words[0];
  run.points = words[1];
  run.switches = words[2];
  run.simulated_ns = words[3];
  run.calls = words[4];
  run.failed = !finished || !WIFEXITED(status) || WEXITSTATUS(status) != 0;
  return run;
}

Choices fork_choices() {
  return Choices(scheduler->choices().bits());
}
std::uint64_t now_ns() {
  return scheduler->now();
}
std::string thread_name() {
  return self->name;
}
void sleep_until(std::uint64_t when_ns) {
  scheduler->sleep(nullptr, when_ns, "sleeps");
}
void sleep_for(std::uint64_t time_ns) {
  sleep_until(scheduler->now() + time_ns);
}
void point() {
  scheduler->step(8);
}
OneStep::OneStep() {
  ++self->steps_in_one;
}
OneStep::~OneStep() {
  --self->steps_in_one;
}
bool wait(const void* key, std::uint64_t until_ns) {
  return scheduler->sleep(key, until_ns, "waits for work");
}
void notify(const void* key) {
  scheduler->wake(key, ~0U);
}
void note(std::uint64_t what) {
  scheduler->note(what);
}
void count_call() {
  ++calls_counted;
}
void fail(const std::string& why) {
  scheduler->fail(why);
}
void delay_stores_in(const void* memory, std::size_t bytes) {
  scheduler->delay_stores_in(memory, bytes);
}
void become_quiet() {
  scheduler->become_quiet();
}
void hold_up(const std::string& name, std::uint64_t time_ns, bool is_starved) {
  scheduler->hold_up(name, time_ns, is_starved);
}
bool is_held_up() {
  return scheduler->is_held_up();
}
void expect_no_stall(std::function<bool()> expected) {
  scheduler->expects_no_stall = std::move(expected);
}

}  // namespace ferry::simulator
