// All placements at every size, in turn: host, compute, service, automatic, and back. The file is
// resident in device memory and in the kernel's page cache.
#include <array>
#include <random>
#include <string>

#include <fcntl.h>

#include <ferry/ferry.hpp>

#include "micro/pairs.hpp"
#include "micro/subcommand.hpp"

namespace {

using namespace ferry;
using namespace ferry::benchmarks;

constexpr int round_count = 40;  // the best is picked on the odd ones, judged on the even ones
constexpr std::uint64_t file_bytes = 256ULL << 20;
constexpr std::uint64_t largest_bytes = 16 << 20;
constexpr std::uint64_t block_bytes = 4 << 20;  // moved per block at least, within these calls:
constexpr long calls_min = 2;
constexpr long calls_max = 512;

struct Named {
  const char* name;
  device::Placement placement;
};
constexpr std::array<Named, 4> placements{{{"host", device::Placement::host},
                                           {"compute", device::Placement::compute},
                                           {"service", device::Placement::service},
                                           {"automatic", device::Placement::automatic}}};

class Calls {
 public:
  Calls(DeviceThread& self, const std::string& path, void* memory)
      : files_(self.files),
        memory_(memory),
        file_(opened(files_.open(path.c_str(), O_RDWR), path)) {
    files_.use(device::Placement::compute);
    read_through(files_, file_, memory_, largest_bytes, file_bytes);
  }
  ~Calls() { files_.close(file_); }
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;

  // ns per call.
  double block(device::Placement placement, bool reading, bool random, std::uint64_t bytes) {
    files_.use(placement);
    const long calls =
        std::min(std::max(static_cast<long>(block_bytes / bytes), calls_min), calls_max);
    const std::uint64_t count = file_bytes / bytes;
    return nanoseconds_each(calls, [&](long) {
      const auto at = static_cast<std::int64_t>((random ? random_() : next_++) % count * bytes);
      check(reading ? files_.pread(file_, memory_, bytes, at)
                    : files_.pwrite(file_, memory_, bytes, at),
            bytes);
    });
  }

 private:
  device::FileCalls<device::ThreadGroup>& files_;
  void* memory_;
  int file_;
  std::mt19937_64 random_{1};
  std::uint64_t next_ = 0;
};

void measure(Calls& calls, bool reading, bool random, std::uint64_t bytes) {
  const std::string name = std::string("automatic / best: ") + (random ? "random" : "sequential") +
                           (reading ? " read, " : " write, ") + std::to_string(bytes) + " B";
  if (!is_wanted(name)) return;
  nlohmann::json line{{"measure", name}, {"unit", "ns"}};
  const auto time = [&](const Named& one) {
    return calls.block(one.placement, reading, random, bytes);
  };
  for (const Named& one : placements)
    time(one);
  for (int round = 0; round < round_count; ++round) {
    for (std::size_t i = 0; i < placements.size(); ++i) {
      const Named& one = placements[round % 2 == 0 ? i : placements.size() - 1 - i];
      line["times"][one.name].push_back(time(one));
    }
  }
  const Named& automatic = placements.back();
  for (int pair = 0; pair < round_count / 2; ++pair) {
    const double first = time(automatic);
    const double second = time(automatic);
    line["same"].push_back({{"ours", first}, {"baseline", second}});
  }
  print(line);
}

void measure_placements(const BenchmarkOptions& options) {
  RuntimeOptions runtime_options;
  runtime_options.device_threads = 1;
  // Half of a cache may be dirty before it is written in the background: this all is, then.
  runtime_options.cache_bytes = 2 * file_bytes + (32 << 20);
  Runtime runtime(runtime_options);
  const Buffer buffer = runtime.allocate(largest_bytes);
  runtime.run([&](DeviceThread& self) {
    Calls calls(self, options.path, buffer.data());
    for (const bool reading : {true, false})
      for (const bool random : {false, true})
        for (std::uint64_t bytes = 512; bytes <= largest_bytes; bytes *= 2)
          measure(calls, reading, random, bytes);
  });
}

const Subcommand registered("placements", "FILE",
                            "automatic beside each placement, on 256 MiB that are overwritten",
                            measure_placements);

}  // namespace
