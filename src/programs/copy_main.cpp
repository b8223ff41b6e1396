// ferry-copy: copies one file between any two storages. Prints JSON lines: scratch, in_place and
// progress, then done or error. Exit status 0, 1 (failed), 2 (wrong arguments), 130 (interrupted).
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <string>
#include <system_error>
#include <vector>

#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include <ferry/ferry.hpp>
#include <ferry/signals.hpp>

#include "programs/copier.hpp"
#include "programs/json_lines.hpp"
#include "storage/router.hpp"

namespace ferry::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr int exit_interrupted = 130;
constexpr std::chrono::milliseconds progress_interval{100};

// Why a path cannot be used, if its storage has more to say than an errno.
std::string explanation(storage::Storage& storage, const CopyOptions& options) {
  for (const std::string& path : {options.from, options.to}) {
    std::string problem = storage.describe_path(path).problem;
    if (!problem.empty()) return problem;
  }
  return "";
}

int report_error(int error_number, const std::string& message, const Remains& remains) {
  print_line({{"type", "error"},
              {"errno", error_number},
              {"message", message},
              {"left_behind", remains.scratch},
              {"incomplete", remains.incomplete}});
  return error_number == EINTR ? exit_interrupted : exit_failed;
}

int copy(CopyOptions options) {
  std::atomic<bool> stopped{false};
  const SignalThread watch([&stopped] { stopped = true; });
  auto last = std::chrono::steady_clock::now() - progress_interval;
  options.progress = [&](const char* phase, std::uint64_t done, std::uint64_t total) {
    const auto now = std::chrono::steady_clock::now();
    if (now - last < progress_interval && done < total) return;
    last = now;
    print_line(
        {{"type", "progress"}, {"phase", phase}, {"done_bytes", done}, {"total_bytes", total}});
  };
  options.scratch = [](const std::string& path) {
    print_line({{"type", "scratch"}, {"path", path}});
  };
  options.in_place = [](const std::string& path) {
    print_line({{"type", "in_place"}, {"path", path}});
  };
  const std::unique_ptr<storage::Storage> storage = storage::make_router();
  try {
    const CopyReport report = copy_file(*storage, options, stopped);
    print_line({{"type", "done"},
                {"bytes", report.bytes},
                {"copy_s", report.copy_s},
                {"sync_s", report.sync_s},
                {"verify_s", report.verify_s}});
    return 0;
  } catch (const std::system_error& error) {
    const int number = error.code().value();
    const std::string more = number == EINTR ? "" : explanation(*storage, options);
    const auto* of_copy = dynamic_cast<const CopyError*>(&error);
    if (of_copy == nullptr) return report_error(number, more.empty() ? error.what() : more, {});
    return report_error(number, more.empty() ? of_copy->message() : more, of_copy->remains());
  }
}

int run(const std::vector<std::string>& words) {
  const bool overwrite = words.size() == 3 && words[0] == "--overwrite";
  if (words.size() != (overwrite ? 3U : 2U)) {
    std::fputs("usage: ferry-copy [--overwrite] FROM TO\n", stderr);
    return exit_wrong_arguments;
  }
  CopyOptions options;
  options.from = words[words.size() - 2];
  options.to = words.back();
  options.overwrite = overwrite;
  options.umask = ::umask(0);
  SignalThread::block();
  ::signal(SIGPIPE, SIG_IGN);
  ::signal(SIGXFSZ, SIG_IGN);
  return copy(std::move(options));
}

}  // namespace
}  // namespace ferry::bench

int main(int count, char** arguments) {
  try {
    return ferry::bench::run({arguments + 1, arguments + count});
  } catch (const std::system_error& error) {
    return ferry::bench::report_error(error.code().value(), error.what(), {});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "ferry-copy: %s\n", error.what());
    return ferry::bench::exit_failed;
  }
}
