// Every placement beside the others: reads and writes of 512 B to 16 MiB, one after the other and
// at random places, with the pages in device memory and without. The host's page cache is warm
// throughout. The crossovers of `automatic` rest on these numbers.
//
//   bench_crossovers DIRECTORY [ROUNDS [SERVICE_THREADS [WORD]]]    rows with WORD in their name
//
// A scratch file of 64 MiB is made there. One JSON line per row and placement; on the error stream
// a table of medians, the smallest sample behind each.
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <ferry/ferry.hpp>

#include "micro/pairs.hpp"

namespace {

using namespace ferry;
using namespace ferry::benchmarks;
using device::Placement;

constexpr std::uint64_t file_bytes = 64ULL << 20;
constexpr std::uint64_t largest_bytes = 16ULL << 20;
constexpr std::uint64_t page_bytes = 64 << 10;
constexpr std::array placements = {Placement::host, Placement::compute, Placement::service,
                                   Placement::automatic};
constexpr std::array names = {"host", "compute", "service", "automatic"};

struct Row {
  std::uint64_t bytes;
  bool reading;
  bool random;
  bool resident;
  bool flushes = false;  // inside the timed region
};

std::string name_of(const Row& row) {
  return std::string(row.reading ? "read" : "write") + (row.random ? " random " : " sequential ") +
         std::to_string(row.bytes) + " B " + (row.resident ? "resident" : "absent") +
         (row.flushes ? " + flush" : "");
}

[[noreturn]] void fail(const std::string& message) {
  std::cerr << "bench_crossovers: " << message << '\n';
  std::exit(1);
}
void check(std::int64_t got, std::uint64_t wanted) {
  if (got != static_cast<std::int64_t>(wanted)) fail("a call gave " + std::to_string(got));
}

class Measurement {
 public:
  Measurement(DeviceThread& self, std::string path, char* memory)
      : files_(self.files), path_(std::move(path)), memory_(memory) {}

  // ns per call.
  double measure(const Row& row, Placement placement) {
    const int file = files_.open(path_.c_str(), O_RDWR);
    if (file < 0) fail("cannot open " + path_);
    check(files_.evict(file), 0);
    files_.use(Placement::compute);
    for (std::uint64_t at = 0; row.resident && at < file_bytes; at += largest_bytes)
      check(files_.pread(file, memory_, largest_bytes, signed_of(at)), largest_bytes);
    const std::vector<std::uint64_t> places = places_of(row);
    files_.use(placement);
    const auto begin = Clock::now();
    for (const std::uint64_t at : places) {
      check(row.reading ? files_.pread(file, memory_, row.bytes, signed_of(at))
                        : files_.pwrite(file, memory_, row.bytes, signed_of(at)),
            row.bytes);
    }
    if (row.flushes) check(files_.flush(file), 0);
    const std::chrono::duration<double, std::nano> elapsed = Clock::now() - begin;
    check(files_.close(file), 0);
    return elapsed.count() / static_cast<double>(places.size());
  }

 private:
  static std::int64_t signed_of(std::uint64_t value) { return static_cast<std::int64_t>(value); }

  // No place twice, so that what is absent stays so for as long as pages are not larger.
  static std::vector<std::uint64_t> places_of(const Row& row) {
    std::vector<std::uint64_t> places(file_bytes / row.bytes);
    for (std::size_t i = 0; i < places.size(); ++i)
      places[i] = i * row.bytes;
    if (row.random) std::shuffle(places.begin(), places.end(), std::mt19937_64(1));
    // Small calls at random places touch each page about once when it is absent.
    const std::size_t most = row.random && !row.resident ? file_bytes / page_bytes : 32'768;
    if (places.size() > most) places.resize(most);
    return places;
  }

  device::FileCalls<device::ThreadGroup>& files_;
  const std::string path_;
  char* memory_;
};

double median(std::vector<double> samples) {
  std::nth_element(samples.begin(), samples.begin() + static_cast<long>(samples.size() / 2),
                   samples.end());
  return samples[samples.size() / 2];
}

std::vector<Row> rows() {
  std::vector<Row> all;
  for (const bool reading : {true, false}) {
    for (const bool resident : {true, false}) {
      for (const bool random : {false, true}) {
        for (std::uint64_t bytes = 512; bytes <= largest_bytes; bytes *= bytes < 4096 ? 8 : 4)
          all.push_back(Row{bytes, reading, random, resident});
      }
    }
  }
  for (std::uint64_t bytes = 4096; bytes <= largest_bytes; bytes *= 4)
    all.push_back(Row{bytes, false, false, false, true});
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: bench_crossovers DIRECTORY [ROUNDS [SERVICE_THREADS [WORD]]]\n";
    return 2;
  }
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 9;
  const std::string word = argc > 4 ? argv[4] : "";
  const std::string path = std::string(argv[1]) + "/bench_crossovers.tmp";
  const std::vector<char> data(file_bytes, 'x');
  const int fd = ::open(path.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
  if (fd < 0) fail("cannot make " + path);
  check(::write(fd, data.data(), data.size()), data.size());
  ::close(fd);

  RuntimeOptions options;
  options.cache_bytes = 2 * file_bytes + (8 << 20);
  options.page_bytes = page_bytes;
  options.service_threads = argc > 3 ? static_cast<unsigned>(std::atoi(argv[3])) : 0;
  Runtime runtime(options);
  const Buffer buffer = runtime.allocate(largest_bytes);
  runtime.run([&](DeviceThread& self) {
    if (self.index != 0) return;
    Measurement measurement(self, path, buffer.as<char>());
    for (const Row& row : rows()) {
      if (name_of(row).find(word) == std::string::npos) continue;
      std::array<std::vector<double>, placements.size()> samples;
      for (int round = -1; round < rounds; ++round) {  // the first one warms up
        for (std::size_t turn = 0; turn < placements.size(); ++turn) {
          // Forwards and backwards by turns, so that nobody always follows the same one.
          const std::size_t i = round % 2 == 0 ? turn : placements.size() - 1 - turn;
          const double ns = measurement.measure(row, placements[i]);
          if (round >= 0) samples[i].push_back(ns);
        }
      }
      std::fprintf(stderr, "%-48s", name_of(row).c_str());
      for (std::size_t i = 0; i < placements.size(); ++i) {
        report_figure(name_of(row) + ": " + names[i], "ns", samples[i]);
        std::fprintf(stderr, "  %s %9.0f (%.0f)", names[i], median(samples[i]),
                     *std::min_element(samples[i].begin(), samples[i].end()));
      }
      std::fprintf(stderr, "\n");
    }
  });
  ::unlink(path.c_str());
  return 0;
}
