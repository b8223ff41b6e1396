// ferry-copy: copies one file between any two storages. One JSON object per line on standard
// output; exit status 0, 1 (failed), 2 (wrong arguments), 130 (interrupted).
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <string>
#include <system_error>
#include <thread>

#include <nlohmann/json.hpp>
#include <signal.h>
#include <sys/stat.h>

#include <ferry/ferry.hpp>
#include <ferry/signals.hpp>

#include "programs/copier.hpp"
#include "storage/router.hpp"

namespace ferry::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* usage =
    "Usage: ferry-copy [--overwrite] FROM TO\n"
    "Prints JSON lines: scratch, in_place and progress, then done or error. The ferry command runs "
    "it as ferry cp.\n";
constexpr int exit_failed = 1;
constexpr int exit_wrong_arguments = 2;
constexpr int exit_interrupted = 130;
constexpr std::chrono::milliseconds progress_interval{100};

void print(const Json& line) {
  const std::string text = line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    throw Error(errno, "standard output");
  }
}

// Sets `stopped` on the first signal blocked by SignalThread::block().
class Watch {
 public:
  explicit Watch(std::atomic<bool>& stopped)
      : thread_([this, &stopped] {
          sigset_t signals;
          sigemptyset(&signals);
          for (const int number : {SIGINT, SIGTERM, SIGHUP})
            sigaddset(&signals, number);
          const timespec slice{0, 50'000'000};
          while (!over_) {
            if (::sigtimedwait(&signals, nullptr, &slice) > 0) stopped = true;
          }
        }) {}
  ~Watch() {
    over_ = true;
    thread_.join();
  }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  std::atomic<bool> over_{false};
  std::thread thread_;
};

// Why a path cannot be used, if its storage has more to say than an errno.
std::string explanation(storage::Storage& storage, const CopyOptions& options) {
  for (const std::string& path : {options.from, options.to}) {
    std::string problem = storage.describe_path(path).problem;
    if (!problem.empty()) return problem;
  }
  return "";
}

int report_error(int error_number, const std::string& message, const Remains& remains) {
  print({{"type", "error"},
         {"errno", error_number},
         {"message", message},
         {"left_behind", remains.scratch},
         {"incomplete", remains.incomplete}});
  return error_number == EINTR ? exit_interrupted : exit_failed;
}

int copy(CopyOptions options) {
  std::atomic<bool> stopped{false};
  const Watch watch(stopped);
  auto last = std::chrono::steady_clock::now() - progress_interval;
  options.progress = [&](const char* phase, std::uint64_t done, std::uint64_t total) {
    const auto now = std::chrono::steady_clock::now();
    if (now - last < progress_interval && done < total) return;
    last = now;
    print({{"type", "progress"}, {"phase", phase}, {"done_bytes", done}, {"total_bytes", total}});
  };
  options.scratch = [](const std::string& path) { print({{"type", "scratch"}, {"path", path}}); };
  options.in_place = [](const std::string& path) { print({{"type", "in_place"}, {"path", path}}); };
  const std::unique_ptr<storage::Storage> storage = storage::make_router();
  try {
    const CopyReport report = copy_file(*storage, options, stopped);
    print({{"type", "done"},
           {"bytes", report.bytes},
           {"copy_s", report.copy_s},
           {"sync_s", report.sync_s},
           {"verify_s", report.verify_s}});
    return 0;
  } catch (const std::system_error& error) {
    const int number = error.code().value();
    const std::string more = number == EINTR ? "" : explanation(*storage, options);
    const auto* of_copy = dynamic_cast<const CopyError*>(&error);
    return report_error(number, more.empty() ? error.what() : more,
                        of_copy != nullptr ? of_copy->remains() : Remains{});
  }
}

int run(int count, char** arguments) {
  CopyOptions options;
  int at = 1;
  if (at < count && std::strcmp(arguments[at], "--overwrite") == 0) {
    options.overwrite = true;
    ++at;
  }
  if (count - at != 2) {
    std::fputs(usage, stderr);
    return exit_wrong_arguments;
  }
  options.umask = ::umask(0);
  options.from = arguments[at];
  options.to = arguments[at + 1];
  SignalThread::block();
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
  return copy(std::move(options));
}

}  // namespace
}  // namespace ferry::bench

int main(int count, char** arguments) {
  try {
    return ferry::bench::run(count, arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ferry-copy: %s\n", error.what());
    return 1;
  }
}
