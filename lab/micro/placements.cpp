// Every placement at every size, in turn: host, compute, service, automatic, and back. The file is
// resident in device memory and in the kernel's page cache.
//
//   bench_placements FILE [WORD]     at least 256 MiB, opened for writing
#include <array>
#include <cstdlib>
#include <random>
#include <string>

#include <fcntl.h>

#include <ferry/ferry.hpp>

#include "micro/pairs.hpp"

namespace {

using namespace ferry;
using namespace ferry::benchmarks;

constexpr int round_count = 40;  // the best is picked on the odd ones, judged on the even ones
constexpr std::uint64_t file_bytes = 256ULL << 20;
constexpr std::uint64_t largest_bytes = 16 << 20;
constexpr std::uint64_t block_bytes = 4 << 20;  // moved per block at least, within these calls:
constexpr long calls_min = 2;
constexpr long calls_max = 512;

void check(std::int64_t got, std::uint64_t wanted) {
  if (got == static_cast<std::int64_t>(wanted)) return;
  std::cerr << "bench_placements: a call gave " << got << '\n';
  std::exit(1);
}

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
  Calls(DeviceThread& self, const char* path, void* memory)
      : files_(self.files), memory_(memory), file_(files_.open(path, O_RDWR)) {
    files_.use(device::Placement::compute);
    for (std::uint64_t at = 0; at < file_bytes; at += largest_bytes)
      check(files_.pread(file_, memory_, largest_bytes, static_cast<std::int64_t>(at)),
            largest_bytes);
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
  std::cout << line.dump() << std::endl;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    std::cerr << "usage: bench_placements FILE [WORD]\n";
    return 2;
  }
  if (argc == 3) only = argv[2];
  RuntimeOptions options;
  options.device_threads = 1;
  // Half of a cache may be dirty before it is written in the background: this all is, then.
  options.cache_bytes = 2 * file_bytes + (32 << 20);
  Runtime runtime(options);
  const Buffer buffer = runtime.allocate(largest_bytes);
  runtime.run([&](DeviceThread& self) {
    Calls calls(self, argv[1], buffer.data());
    for (const bool reading : {true, false})
      for (const bool random : {false, true})
        for (std::uint64_t bytes = 512; bytes <= largest_bytes; bytes *= 2)
          measure(calls, reading, random, bytes);
  });
}
