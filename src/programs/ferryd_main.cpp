// ferryd: one page cache for all processes of a user on this machine. One argument, a JSON object:
//   {"action": "serve", "socket": PATH, "cache_bytes": N, "idle_s": S}   serves until it ends
//   {"action": "status", "socket": PATH}                                 what the one there does
//   {"action": "stop", "socket": PATH}                                   ends it
// One JSON object on standard output; exit status 0, 1 (failed), 2 (wrong arguments).
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <string>

#include <nlohmann/json.hpp>
#include <poll.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <ferry/error.hpp>

#include "daemon/daemon.hpp"
#include "daemon/messages.hpp"
#include "programs/json_lines.hpp"

namespace ferry::bench {
namespace {

using Json = nlohmann::ordered_json;

// Calls begin within `answer_ms`; the last takes that for connecting and again for its answer. With
// `end_ms` less than the command waits (daemon.py); much, because a busy machine is no dead ferryd.
constexpr int answer_ms = 4000;
constexpr int calls_max = 10;
constexpr int end_ms = 10'000;

daemon::Daemon* serving = nullptr;  // for the signal handler; set once, before it is installed

// Each file that is served takes two descriptors, each program one.
void raise_descriptor_limit() {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

int serve(const Json& wishes) {
  raise_descriptor_limit();
  daemon::DaemonOptions options;
  options.socket = wishes.at("socket");
  options.cache_bytes = wishes.at("cache_bytes");
  options.idle = std::chrono::seconds(wishes.at("idle_s").get<std::uint32_t>());
  daemon::Daemon daemon(options);
  serving = &daemon;
  for (const int signal : {SIGTERM, SIGINT})
    std::signal(signal, [](int) { serving->stop(); });
  print_line({{"ready", true}, {"pid", getpid()}});
  daemon.serve();
  return 0;
}

daemon::DaemonStatus ask(const std::string& socket_path, daemon::RequestKind kind) {
  daemon::DaemonRequest request;
  request.kind = kind;
  daemon::DaemonAnswer answer;
  int error = EPIPE;
  const auto hangs_up = [&] { return error == EPIPE || error == ENOTCONN || error == ECONNRESET; };
  const auto last_call = std::chrono::steady_clock::now() + std::chrono::milliseconds(answer_ms);
  // ferryd hangs up on who does not send at once, as happens here where the CPUs are busy.
  for (int i = 0; i < calls_max && hangs_up() && std::chrono::steady_clock::now() < last_call;
       ++i) {
    const int socket = daemon::connect_to(socket_path.c_str(), answer_ms);
    if (socket < 0) throw Error(-socket, "no ferryd serves " + socket_path);
    int received = -1;
    error = daemon::exchange(socket, request, -1, answer, received);
    close(socket);
    if (received >= 0) close(received);
  }
  if (error == EPROTO)
    throw Error(error, "the ferryd at " + socket_path +
                           " is of another version of Ferry or for other cache lines; end it with "
                           "the 'ferry daemon stop' of that Ferry");
  if (error != 0) throw Error(error, "the ferryd at " + socket_path + " does not answer");
  return answer.status;
}

int show(const std::string& socket_path) {
  const daemon::DaemonStatus status = ask(socket_path, daemon::RequestKind::status);
  print_line({{"pid", status.pid},
              {"clients", status.clients},
              {"files", status.files},
              {"cache_bytes", status.cache_bytes},
              {"cached_bytes", status.cached_bytes},
              {"hits", status.hits},
              {"fills", status.fills},
              {"breaks", status.breaks},
              {"version", FERRY_VERSION}});
  return 0;
}

int end(const std::string& socket_path) {
  const daemon::DaemonStatus status = ask(socket_path, daemon::RequestKind::stop);
  const auto process = static_cast<int>(syscall(SYS_pidfd_open, status.pid, 0));
  if (process >= 0) {  // else it is gone already
    pollfd gone{process, POLLIN, 0};
    const int ended = poll(&gone, 1, end_ms);
    close(process);
    if (ended == 0)
      throw Error(ETIMEDOUT, "ferryd, process " + std::to_string(status.pid) +
                                 ", has been asked to end and still runs");
  }
  print_line({{"stopped", true}});
  return 0;
}

int run(int count, char** arguments) {
  const Json wishes = count == 2 ? Json::parse(arguments[1], nullptr, false) : Json();
  const std::string action = wishes.is_object() ? wishes.value("action", "") : "";
  const std::string socket = wishes.is_object() ? wishes.value("socket", "") : "";
  const bool serves =
      action == "serve" && wishes.contains("cache_bytes") && wishes.contains("idle_s");
  if (socket.empty() || (!serves && action != "status" && action != "stop")) {
    std::fprintf(stderr,
                 "usage: ferryd JSON\n"
                 "one object with \"action\" (serve, status or stop) and \"socket\"; serve also "
                 "takes \"cache_bytes\" and \"idle_s\". 'ferry daemon' runs it.\n");
    return exit_wrong_arguments;
  }
  if (serves) return serve(wishes);
  return action == "status" ? show(socket) : end(socket);
}

}  // namespace
}  // namespace ferry::bench

int main(int count, char** arguments) {
  return ferry::bench::run_reporting_errors("ferryd",
                                            [&] { return ferry::bench::run(count, arguments); });
}
