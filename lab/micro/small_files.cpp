// Files that are opened, read whole and closed, one after the other: by a device thread, by the
// host and through its cache, and by plain calls. The kernel has them in memory.
#include <fstream>
#include <string>
#include <vector>

#include "micro/device_file.hpp"

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

const Subcommand registered("small-files", "FOLDER", "files that are opened, read and closed",
                            small_files);

}  // namespace
