// Small files, one after the other. The kernel has them in memory.
//
// small-files: they are opened, read whole and closed: by a device thread, by the host and through
// its cache, and by plain calls.
//
// file-names: they are asked for their sizes by name; empty ones are made and removed. By a device
// thread, by plain calls, and by plain calls that another core executes.
#include <fstream>
#include <string>
#include <vector>

#include "micro/device_file.hpp"
#include "micro/hand_over.hpp"

namespace {

using namespace ferry;
using namespace ferry::benchmarks;

constexpr std::uint64_t files = 512;
constexpr std::uint64_t file_bytes = 8192;
constexpr std::uint64_t cache_bytes = 256 << 20;

std::vector<std::string> make_files(const std::string& folder) {
  std::vector<std::string> paths;
  for (std::uint64_t i = 0; i < files; ++i) {
    paths.push_back(folder + "/small-" + std::to_string(i));
    std::ofstream(paths.back()) << std::string(file_bytes, 'x');
  }
  return paths;
}

// Nanoseconds for each file.
template <class File, class... Calls>
double pass(const std::vector<std::string>& paths, char* memory, Calls&... calls) {
  return nanoseconds_each(static_cast<long>(files), [&](long i) {
    const File file(calls..., paths[static_cast<std::size_t>(i)]);
    file.read(memory, file_bytes, 0);
  });
}

void measure(const std::string& placement, const RuntimeOptions& options,
             const std::vector<std::string>& paths) {
  const std::string name = "open + read + close, 8 KiB: " + placement + " / plain calls";
  if (!is_wanted(name)) return;
  on_device(options, file_bytes, [&](Runtime&, DeviceThread& self, char* memory) {
    const auto ours = [&] { return pass<DeviceFile>(paths, memory, self.files); };
    const auto plain = [&] { return pass<KernelFile>(paths, memory); };
    measure_pairs(name, "ns", ours, plain);
  });
}

void small_files(const BenchmarkOptions& options) {
  const std::vector<std::string> paths = make_files(options.path);
  measure("host", one_thread(), paths);
  measure("compute", one_thread(cache_bytes), paths);
  for (const std::string& path : paths)
    ::unlink(path.c_str());
}

void file_names(const BenchmarkOptions& options) {
  const std::vector<std::string> paths = make_files(options.path);
  const auto path_of = [&](long i) { return paths[static_cast<std::size_t>(i)].c_str(); };
  const std::string made = options.path + "/made";
  constexpr int flags = O_WRONLY | O_CREAT | O_EXCL;
  on_device(one_thread(), file_bytes, [&](Runtime& runtime, DeviceThread& self, char*) {
    const CpuSet server_cpus = parse_cpus(runtime.info().server_cpus);
    auto& calls = self.files;
    // `ours` and `plain` are called with the number of a file.
    const auto measure = [&](const std::string& name, auto ours, auto plain) {
      constexpr auto count = static_cast<long>(files);
      const auto by_plain = [&] { return nanoseconds_each(count, plain); };
      measure_pairs(
          name + ": host / plain calls", "ns", [&] { return nanoseconds_each(count, ours); },
          by_plain);
      measure_pairs(
          name + ": bare hand-over / plain calls", "ns",
          [&] { return handed_over(count, server_cpus, plain); }, by_plain);
    };
    measure(
        "stat",
        [&](long i) {
          device::FileStatus status{};
          check(calls.stat(path_of(i), &status), 0);
        },
        [&](long i) {
          struct stat status {};
          check(::stat(path_of(i), &status), 0);
        });
    measure(
        "create + close + remove",
        [&](long) {
          check(calls.close(opened(calls.open(made.c_str(), flags, 0644), made)), 0);
          check(calls.unlink(made.c_str()), 0);
        },
        [&](long) {
          check(::close(opened(::open(made.c_str(), flags | O_CLOEXEC, 0644), made)), 0);
          check(::unlink(made.c_str()), 0);
        });
  });
  for (const std::string& path : paths)
    ::unlink(path.c_str());
}

const Subcommand for_names("file-names", "FOLDER", "files that are made, looked up and removed",
                           file_names);
const Subcommand registered("small-files", "FOLDER", "files that are opened, read and closed",
                            small_files);

}  // namespace
