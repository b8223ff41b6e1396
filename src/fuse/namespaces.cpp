#include "fuse/namespaces.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ferry/error.hpp>

#include "base/mounts.hpp"
#include "base/socket_messages.hpp"
#include "fuse/session.hpp"
#include "storage/router.hpp"

namespace ferry::fuse {
namespace {

// What a server says first: whether it can serve.
struct Hello {
  std::uint32_t mode = 0;  // of the target
  char problem[1000]{};    // empty: none
};

// And what it is told, with the descriptor of /dev/fuse.
struct Order {
  std::uint32_t has_only_user = 0;
  OnlyUser only_user;
};

[[noreturn]] void fail(const std::string& what) {
  throw Error(errno, what);
}

// Throws an error that says why it cannot be served, or returns the mode of the directory.
std::uint32_t check_target(storage::Storage& storage, const std::string& target) {
  const storage::Description description = storage.describe_path(target);
  if (!description.problem.empty()) throw std::runtime_error(description.problem);
  storage::SyncCalls calls(storage);
  storage::Operation operation{.kind = storage::Kind::path_status, .path = target.c_str()};
  storage::checked(calls.run(operation), target);
  if (!S_ISDIR(operation.status.mode)) throw Error(ENOTDIR, target);
  return operation.status.mode;
}

// Closes every descriptor but this one and the standard ones.
void close_all_but(int kept) {
  // A system call, as glibc 2.28 has no such function.
  const bool below = kept == 3 || syscall(SYS_close_range, 3U, kept - 1, 0U) == 0;
  if (below && syscall(SYS_close_range, kept + 1, ~0U, 0U) == 0) return;
  // Kernels before 5.9 do not know it, and filters of containers may refuse it.
  std::vector<int> others;
  std::error_code ignored;
  for (const auto& one : std::filesystem::directory_iterator("/proc/self/fd", ignored)) {
    const int number = std::atoi(one.path().filename().c_str());
    if (number > 2 && number != kept) others.push_back(number);
  }
  for (const int number : others)
    close(number);
}

// The server. Never returns.
[[noreturn]] void be_server(int socket, const std::string& target) {
  setsid();
  umask(0);  // the kernel has applied the program's
  static_cast<void>(!chdir("/"));
  // It ends with the last program. Batch systems signal all processes of a job, so that programs
  // can save what they have.
  for (const int number : {SIGINT, SIGHUP, SIGPIPE, SIGTERM, SIGQUIT, SIGUSR1, SIGUSR2})
    std::signal(number, SIG_IGN);
  const int nothing = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int standard = 0; standard <= 2; ++standard)
    dup2(nothing, standard);
  close_all_but(socket);  // nothing of the program's stays open here
  Hello hello;
  std::unique_ptr<storage::Storage> storage;
  try {
    storage = storage::make_router();
    hello.mode = check_target(*storage, target);
  } catch (const std::exception& error) {
    std::strncpy(hello.problem, error.what(), sizeof hello.problem - 1);
  }
  int device = -1;
  Order order;
  if (send_message(socket, &hello, sizeof hello, -1) != 0 || hello.problem[0] != '\0' ||
      receive_message(socket, &order, sizeof order, device) != 0 || device < 0)
    _exit(1);
  close(socket);
  SessionOptions options{.root = target};
  if (order.has_only_user != 0) options.only_user = order.only_user;
  serve(device, *storage, options);
  storage.reset();
  _exit(0);
}

// The process that answers for a map, as seen by the program's.
class Server {
 public:
  explicit Server(const std::string& target) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) fail("a socket");
    const pid_t middle = fork();
    if (middle == 0) {
      // A program finds no child that it has not started.
      const pid_t server = fork();
      if (server == 0) be_server(ends[1], target);
      _exit(server > 0 ? 0 : 1);
    }
    close(ends[1]);
    socket_ = ends[0];
    int status = 0;
    const bool began = middle > 0 && waitpid(middle, &status, 0) == middle && status == 0;
    int nothing = -1;
    Hello hello;
    if (!began || receive_message(socket_, &hello, sizeof hello, nothing) != 0)
      hello = {0, "a process that serves it has not begun"};
    mode_ = hello.mode;
    if (hello.problem[0] == '\0') return;
    close(socket_);
    throw std::runtime_error(hello.problem);
  }
  ~Server() { close(socket_); }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  std::uint32_t mode() const { return mode_; }
  // `device`: an open /dev/fuse.
  void begin(int device, const Order& order) const {
    if (const int error = send_message(socket_, &order, sizeof order, device); error != 0)
      throw Error(error, "a process that serves files has ended");
  }

 private:
  int socket_ = -1;
  std::uint32_t mode_ = 0;
};

void write_to(const char* path, const std::string& text) {
  const int file = open(path, O_WRONLY | O_CLOEXEC);
  const bool written =
      file >= 0 && write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  const int error = errno;
  if (file >= 0) close(file);
  if (!written) throw Error(error, path);
}

// Who the files belong to, if that is one user for all.
std::optional<OnlyUser> separate() {
  if (unshare(CLONE_NEWNS) == 0) return {};
  if (errno != EPERM) fail("a mount namespace");
  const OnlyUser user{geteuid(), getegid()};
  if (unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
    fail("the kernel allows you no user namespace, so only root can map");
  write_to("/proc/self/setgroups", "deny");
  const auto same = [](std::uint32_t number) {
    return std::to_string(number) + " " + std::to_string(number) + " 1";
  };
  write_to("/proc/self/uid_map", same(user.user));
  write_to("/proc/self/gid_map", same(user.group));
  return user;
}

void mount_at(const FolderMap& map, const Server& server, const std::optional<OnlyUser>& only) {
  const int device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
  if (device < 0) fail("/dev/fuse");
  Order order;
  if (only) order = {1, *only};
  char mode[16];
  std::snprintf(mode, sizeof mode, "%o", server.mode());
  std::string options = "fd=" + std::to_string(device) + ",rootmode=" + mode +
                        ",user_id=" + std::to_string(geteuid()) +
                        ",group_id=" + std::to_string(getegid());
  // Root's program may go on as another user: then files' permissions count.
  if (!only) options += ",allow_other,default_permissions";
  const int failed = mount(map.target.c_str(), map.folder.c_str(), "fuse.ferry",
                           MS_NOSUID | MS_NODEV, options.c_str());
  if (failed != 0) {
    const int error = errno;
    close(device);
    throw Error(error, "mounting at " + map.folder);
  }
  server.begin(device, order);
  close(device);
  struct stat status {};
  if (stat(map.folder.c_str(), &status) != 0) fail(map.folder);  // it answers
}

}  // namespace

void enter_namespace(std::vector<FolderMap> maps) {
  // A folder may lie in another map.
  std::sort(maps.begin(), maps.end(), [](const FolderMap& one, const FolderMap& other) {
    return one.folder.size() < other.folder.size();
  });
  std::vector<std::unique_ptr<Server>> servers;
  servers.reserve(maps.size());
  for (const FolderMap& map : maps)
    servers.push_back(std::make_unique<Server>(map.target));
  std::error_code ignored;
  const std::string here = std::filesystem::current_path(ignored).string();
  const std::optional<OnlyUser> only = separate();
  keep_mounts_inside();
  for (std::size_t i = 0; i < maps.size(); ++i)
    mount_at(maps[i], *servers[i], only);
  // The working folder may be one of theirs now.
  if (!here.empty() && chdir(here.c_str()) != 0) fail("the working folder " + here);
}

}  // namespace ferry::fuse
