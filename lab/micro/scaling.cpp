// The speed-up of two device threads over one, reading resident pages at random, compared with that
// of two simultaneous copies over as much memory in huge pages.
#include <barrier>
#include <functional>
#include <random>
#include <string>

#include "micro/device_file.hpp"
#include "micro/memory.hpp"

namespace {

using namespace ferry;
using namespace ferry::benchmarks;

constexpr std::uint64_t file_bytes = 128ULL << 20;
constexpr std::uint64_t fill_bytes = 1 << 20;

// Two device threads; the second sleeps while the first works alone.
class Team {
 public:
  using Work = std::function<void(unsigned index)>;

  // Seconds that `threads` of them took for `work`. For the first thread.
  double timed(unsigned threads, const Work& work) {
    work_ = &work;
    if (threads == 1) {
      const auto begin = Clock::now();
      work(0);
      return seconds_since(begin);
    }
    meet_.arrive_and_wait();
    meet_.arrive_and_wait();  // both are awake now
    const auto begin = Clock::now();
    work(0);
    meet_.arrive_and_wait();
    return seconds_since(begin);
  }
  void dismiss() {
    work_ = nullptr;
    meet_.arrive_and_wait();
  }
  // For the second thread.
  void help() {
    for (;;) {
      meet_.arrive_and_wait();
      if (work_ == nullptr) return;
      meet_.arrive_and_wait();
      (*work_)(1);
      meet_.arrive_and_wait();
    }
  }

 private:
  const Work* work_ = nullptr;
  std::barrier<> meet_{2};
};

// Each thread has its own buffer and sequence of places.
struct Reader {
  device::FileCalls<device::ThreadGroup>* files = nullptr;
  Buffer buffer;
  std::mt19937_64 random;
  int file = -1;

  void read(std::uint64_t bytes, std::uint64_t total) {
    for (std::uint64_t done = 0; done < total; done += bytes)
      check(files->pread(file, buffer.data(), bytes, static_cast<std::int64_t>(place(bytes))),
            bytes);
  }
  void copy(const char* from, std::uint64_t bytes, std::uint64_t total) {
    for (std::uint64_t done = 0; done < total; done += bytes)
      library_copy(buffer.data(), from + place(bytes), bytes);
  }

 private:
  std::uint64_t place(std::uint64_t bytes) { return random() % (file_bytes / bytes) * bytes; }
};

// Throughput of two threads over that of one, each doing `work`.
double scaling(Team& team, const Team::Work& work) {
  const double one = team.timed(1, work);
  const double two = team.timed(2, work);
  return 2 * one / two;
}

void measure(Team& team, Reader* readers, const HugeMemory& bare, const std::string& files,
             bool shared) {
  for (const std::uint64_t bytes : {std::uint64_t{4096}, std::uint64_t{64 << 10}}) {
    const std::uint64_t total = bytes == 4096 ? 16ULL << 20 : 64ULL << 20;
    measure_pairs(
        "two threads / one, " + files + ", " + std::to_string(bytes >> 10) +
            " KiB: compute / memcpy",
        "ratio",
        [&] { return scaling(team, [&](unsigned index) { readers[index].read(bytes, total); }); },
        [&] {
          return scaling(team, [&](unsigned index) {
            readers[index].copy(bare.data() + (shared ? 0 : index * file_bytes), bytes, total);
          });
        });
  }
}

void measure_scaling(const BenchmarkOptions& options) {
  RuntimeOptions runtime_options;
  runtime_options.device_cpus = runtime_options.server_cpus = "0-1";  // hits need no server
  runtime_options.device_threads = 2;
  runtime_options.cache_bytes = 2 * file_bytes + (16 << 20);
  runtime_options.placement = device::Placement::compute;
  Runtime runtime(runtime_options);
  Team team;
  Reader readers[2];
  const HugeMemory bare(2 * file_bytes);
  runtime.run([&](DeviceThread& self) {
    Reader& mine = readers[self.index];
    const DeviceFile file(self.files, self.index == 0 ? options.path : options.other);
    mine.files = &self.files;
    mine.buffer = runtime.allocate(fill_bytes);
    mine.random.seed(self.index + 1);
    mine.file = file.number;
    file.read_through(mine.buffer.data(), fill_bytes, file_bytes);
    if (self.index == 1) {
      team.help();
    } else {
      team.timed(2, [](unsigned) {});  // the other one has filled its pages, too
      measure(team, readers, bare, "files of their own", false);
      readers[1].file = readers[0].file;
      measure(team, readers, bare, "one file", true);
      team.dismiss();
    }
  });
}

const Subcommand registered("scaling", "FILE OTHER",
                            "hits of two threads beside those of one, of 128 MiB each",
                            measure_scaling);

}  // namespace
