// A kernel continues while its server's process is stopped (a debugger, Ctrl-Z). This program runs
// itself again as the host of a mock GPU, which forks the kernel; both share memory, and only the
// host is stopped.
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ferry/gpu.hpp>

#include "support/files.hpp"
#include "support/kernel_threads.hpp"
#include "support/within.hpp"

namespace ferry {
namespace {

using std::chrono::milliseconds;

constexpr const char* folder_variable = "FERRY_TEST_PAUSED_HOST";
constexpr std::size_t file_bytes = 1 << 20;
constexpr milliseconds liveness{200};

// The kernel's exit status: what went wrong.
enum KernelEnd : int { as_it_should, open_failed, read_failed, other_bytes, cell_given_up };

// A kernel can neither sleep until woken nor wake others.
device::HostHooks kernel_hooks() {
  device::HostHooks hooks = cpu::host_hooks();
  hooks.park = [](const std::uint32_t*, std::uint32_t, std::uint64_t) { usleep(100); };
  hooks.wake = [](const std::uint32_t*) {};
  hooks.barrier_everywhere = nullptr;
  return hooks;
}

// Reads until `enough` is set. Has one thread and only GPU memory.
KernelEnd play_kernel(const device::Context& on_gpu, const char* path, const std::string& contents,
                      const char* started, const char* enough) {
  device::Context context = on_gpu;
  context.hooks = kernel_hooks();
  device::FileCalls files(context, device::ThreadGroup{}, 0);
  const int file = files.open(path, O_RDONLY);
  if (file <= 0) return open_failed;
  char got[4096];
  for (std::size_t at = 0; access(enough, F_OK) != 0; at = (at + 12'288) % file_bytes) {
    if (at == 36'864) ::close(::creat(started, 0644));
    if (files.pread(file, got, sizeof got, static_cast<std::int64_t>(at)) !=
        static_cast<std::int64_t>(sizeof got))
      return read_failed;
    if (std::memcmp(got, contents.data() + at, sizeof got) != 0) return other_bytes;
  }
  files.close(file);
  return context.arena.group(0).retired == 0 ? as_it_should : cell_given_up;
}

void play_host(const std::string& folder) {
  const std::string path = folder + "/file";
  const std::string started = folder + "/started";
  const std::string enough = folder + "/enough";
  const std::string contents = test::pattern(file_bytes, 6);
  test::write_file(path, contents);
  RuntimeOptions options = test::small_runtime(1, 4 << 20);
  options.liveness_timeout = liveness;
  GpuRuntime runtime(options, test::small_gpu());
  const test::KernelThreads kernel(runtime);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // as a driver ends the kernels of a process
    _exit(play_kernel(kernel.context(), path.c_str(), contents, started.c_str(), enough.c_str()));
  }
  int status = 0;
  test::within_patience("the kernel", [&] { waitpid(child, &status, 0); });
  EXPECT_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : -1, as_it_should);
}

TEST(PausedHost, IsNoDeadServerForItsKernels) {
  if (const char* folder = getenv(folder_variable)) return play_host(folder);
  const test::ScratchDirectory directory;
  const std::string folder = directory.path();
  const pid_t host = fork();
  ASSERT_GE(host, 0);
  if (host == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setenv(folder_variable, folder.c_str(), 1);
    setenv("FERRY_MOCK_CUDA_SHARED", "1", 1);
    execl("/proc/self/exe", "child", "--gtest_filter=PausedHost.*", nullptr);
    _exit(127);
  }
  const auto is_there = [&] { return access((folder + "/started").c_str(), F_OK) == 0; };
  EXPECT_TRUE(test::eventually([&] { return is_there() || waitpid(host, nullptr, WNOHANG) != 0; }));
  for (int i = 0; i < 2 && is_there(); ++i) {
    kill(host, SIGSTOP);
    std::this_thread::sleep_for(3 * liveness);
    kill(host, SIGCONT);
    std::this_thread::sleep_for(milliseconds(50));
  }
  test::write_file(folder + "/enough", "");
  int status = -1;
  test::within_patience("the host", [&] { waitpid(host, &status, 0); });
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
}

}  // namespace
}  // namespace ferry
