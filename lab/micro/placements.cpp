// cached-calls, optimizations, placements: calls for a file that is resident in device memory and
// in the kernel's page cache: each placement beside `automatic`, and `compute` beside the kernel's
// calls, bare copies over as much memory in huge pages, and a cache without its optimisations.
//
// scaling: the speed-up of two device threads over one, reading resident pages at random, compared
// with that of two simultaneous copies over as much memory in huge pages.
#include <algorithm>
#include <array>
#include <barrier>
#include <random>

#include "micro/device_file.hpp"
#include "micro/memory.hpp"

namespace {

using namespace ferry;
using namespace ferry::benchmarks;

constexpr std::uint64_t file_bytes = 256ULL << 20;
constexpr std::uint64_t largest_bytes = 16 << 20;
constexpr std::uint64_t team_bytes = 128ULL << 20;  // of each file of `scaling`
constexpr std::uint64_t fill_bytes = 1 << 20;
constexpr int round_count = 40;  // the best is picked on the odd ones, judged on the even ones

// One block of calls.
struct Work {
  std::uint64_t bytes;  // of a call
  bool writes = false;
  bool random = false;
  // Enough that what a block finds in the core's caches of another's does not matter.
  long calls = static_cast<long>(std::min((64ULL << 20) / bytes, 64ULL << 10));
};

// The file's whole range, by several ways.
class Ways {
 public:
  Ways(DeviceThread& self, const std::string& path, char* memory)
      : memory_(memory), file_(self.files, path, O_RDWR), plain_(path, O_RDWR) {
    use(device::Placement::compute);
    read_through(file_, memory_, largest_bytes, file_bytes);
    read_through(plain_, memory_, largest_bytes, file_bytes);
  }

  void use(device::Placement placement) { file_.files.use(placement); }

  // These give ns per call.
  double by_device(const Work& work) { return by_calls(file_, work); }
  double by_kernel(const Work& work) { return by_calls(plain_, work); }
  double by_copy(const Work& work, const HugeMemory& bare, Copy copy = library_copy) {
    if (work.writes)
      return each(work, [&](std::uint64_t at) { copy(bare.data() + at, memory_, work.bytes); });
    return each(work, [&](std::uint64_t at) { copy(memory_, bare.data() + at, work.bytes); });
  }
  // The faster of the library's copy and the streaming one.
  Copy best_copy(const Work& work, const HugeMemory& bare) {
    double library = by_copy(work, bare);
    double streaming = by_copy(work, bare, streaming_copy());
    for (int i = 0; i < 4; ++i) {
      library = std::min(library, by_copy(work, bare));
      streaming = std::min(streaming, by_copy(work, bare, streaming_copy()));
    }
    return streaming < library ? streaming_copy() : library_copy;
  }

 private:
  template <class File>
  double by_calls(const File& file, const Work& work) {
    if (work.writes)
      return each(work, [&](std::uint64_t at) { file.write(memory_, work.bytes, at); });
    return each(work, [&](std::uint64_t at) { file.read(memory_, work.bytes, at); });
  }
  // At random places, new ones for every block, or one after the other.
  template <class Call>
  double each(const Work& work, Call call) {
    places_.resize(static_cast<std::size_t>(work.calls));
    for (std::uint64_t& place : places_)
      place = (work.random ? random_() : next_++) % (file_bytes / work.bytes) * work.bytes;
    return nanoseconds_each(work.calls,
                            [&](long i) { call(places_[static_cast<std::size_t>(i)]); });
  }

  char* memory_;
  DeviceFile file_;
  KernelFile plain_;
  std::mt19937_64 random_{1};
  std::uint64_t next_ = 0;
  std::vector<std::uint64_t> places_;
};

// Half of a cache may be dirty before it is written in the background: this all is, then.
RuntimeOptions with_the_whole_file() {
  return one_thread(2 * file_bytes + (32 << 20));
}

// Times, so that the speed-up is other / compute: the cached call is the baseline.
void measure_calls(Ways& ways, const HugeMemory& bare, const std::string& name, const Work& work) {
  const auto cached = [&] { return ways.by_device(work); };
  const auto plain = [&] { return ways.by_kernel(work); };
  const auto copy = [&] { return ways.by_copy(work, bare); };
  const std::string call = name + (work.writes ? ": pwrite" : ": pread");
  measure_pairs(call + " / compute", "ns", plain, cached);
  // What the machine allows: nobody moves these bytes faster than a copy without a look-up.
  measure_pairs(call + " / bare memcpy", "ns", plain, copy);
  if (!work.writes) measure_pairs(name + ": memcpy / compute", "ns", copy, cached);
}

void measure_best_copy(Ways& ways, const HugeMemory& bare, const std::string& size,
                       std::uint64_t bytes) {
  const std::string name = "overwrite, " + size + ": best copy / compute";
  if (!is_wanted(name)) return;
  const Work work{.bytes = bytes, .writes = true};
  const Copy best = ways.best_copy(work, bare);
  measure_pairs(
      name, "ns", [&] { return ways.by_copy(work, bare, best); },
      [&] { return ways.by_device(work); });
}

void cached_calls(const BenchmarkOptions& options) {
  RuntimeOptions runtime_options = with_the_whole_file();
  runtime_options.page_bytes = 64 << 10;
  on_device(runtime_options, largest_bytes, [&](Runtime&, DeviceThread& self, char* memory) {
    Ways ways(self, options.path, memory);
    const HugeMemory bare(file_bytes);
    for (const auto& [size, bytes] : {std::pair{"64 B", 64U}, {"512 B", 512U}, {"4 KiB", 4096U}}) {
      measure_calls(ways, bare, std::string("cached random read, ") + size,
                    {.bytes = bytes, .random = true});
    }
    measure_calls(ways, bare, "cached sequential read, 64 KiB", {.bytes = 64 << 10});
    measure_calls(ways, bare, "overwrite, 4 KiB", {.bytes = 4096, .writes = true});
    measure_best_copy(ways, bare, "64 KiB", 64 << 10);
    measure_best_copy(ways, bare, "1 MiB", 1 << 20);
  });
}

void optimizations(const BenchmarkOptions& options) {
  RuntimeOptions without = with_the_whole_file();
  without.cache_switches = {false, false, false, false, false, false};
  const HugeMemory bare(file_bytes);
  const auto measure = [&](Ways& on, Ways& off) {
    for (const bool writes : {false, true}) {
      const Work work{.bytes = 4 << 20, .writes = writes};
      const std::string name = std::string("4 MiB records, ") + (writes ? "write: " : "read: ");
      const auto all_on = [&] { return on.by_device(work); };
      measure_pairs(
          name + "memcpy / all on", "ns", [&] { return on.by_copy(work, bare); }, all_on);
      measure_pairs(
          name + "all off / all on", "ns", [&] { return off.by_device(work); }, all_on);
    }
  };
  Runtime runtime(with_the_whole_file());
  Runtime other_runtime(without);
  const Buffer memory = runtime.allocate(largest_bytes);
  const Buffer other_memory = other_runtime.allocate(largest_bytes);
  // One program inside the other: this thread waits while that one makes the calls of both.
  runtime.run([&](DeviceThread& self) {
    Ways on(self, options.path, memory.as<char>());
    other_runtime.run([&](DeviceThread& other) {
      Ways off(other, options.path, other_memory.as<char>());
      measure(on, off);
    });
  });
}

// In turn host, compute, service, automatic, and back.
void measure_placements(Ways& ways, const std::string& name, const Work& work) {
  constexpr std::array<const char*, 4> names = {"host", "compute", "service", "automatic"};
  constexpr std::array<device::Placement, 4> placements = {
      device::Placement::host, device::Placement::compute, device::Placement::service,
      device::Placement::automatic};
  if (!is_wanted(name)) return;
  nlohmann::json line{{"measure", name}, {"unit", "ns"}};
  const auto time = [&](std::size_t i) {
    ways.use(placements[i]);
    return ways.by_device(work);
  };
  for (std::size_t i = 0; i < names.size(); ++i)
    time(i);
  for (int round = 0; round < round_count; ++round) {
    for (std::size_t step = 0; step < names.size(); ++step) {
      const std::size_t i = round % 2 == 0 ? step : names.size() - 1 - step;
      line["times"][names[i]].push_back(time(i));
    }
  }
  for (int pair = 0; pair < round_count / 2; ++pair) {
    const double first = time(names.size() - 1);
    const double second = time(names.size() - 1);
    line["same"].push_back({{"ours", first}, {"baseline", second}});
  }
  print(line);
}

void placements(const BenchmarkOptions& options) {
  on_device(with_the_whole_file(), largest_bytes, [&](Runtime&, DeviceThread& self, char* memory) {
    Ways ways(self, options.path, memory);
    for (const bool writes : {false, true}) {
      for (const bool random : {false, true}) {
        for (std::uint64_t bytes = 512; bytes <= largest_bytes; bytes *= 2) {
          const long calls = std::clamp(static_cast<long>((4 << 20) / bytes), 2L, 512L);
          measure_placements(ways,
                             std::string("automatic / best: ") +
                                 (random ? "random" : "sequential") +
                                 (writes ? " write, " : " read, ") + std::to_string(bytes) + " B",
                             {bytes, writes, random, calls});
        }
      }
    }
  });
}

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
  std::uint64_t place(std::uint64_t bytes) { return random() % (team_bytes / bytes) * bytes; }
};

// Throughput of two threads over that of one, each doing `work`.
double scaling(Team& team, const Team::Work& work) {
  const double one = team.timed(1, work);
  const double two = team.timed(2, work);
  return 2 * one / two;
}

void measure_team(Team& team, Reader* readers, const HugeMemory& bare, const std::string& files,
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
            readers[index].copy(bare.data() + (shared ? 0 : index * team_bytes), bytes, total);
          });
        });
  }
}

void measure_scaling(const BenchmarkOptions& options) {
  RuntimeOptions runtime_options;
  runtime_options.device_cpus = runtime_options.server_cpus = "0-1";  // hits need no server
  runtime_options.device_threads = 2;
  runtime_options.cache_bytes = 2 * team_bytes + (16 << 20);
  runtime_options.placement = device::Placement::compute;
  Runtime runtime(runtime_options);
  Team team;
  Reader readers[2];
  const HugeMemory bare(2 * team_bytes);
  runtime.run([&](DeviceThread& self) {
    Reader& mine = readers[self.index];
    const DeviceFile file(self.files, self.index == 0 ? options.path : options.other);
    mine.files = &self.files;
    mine.buffer = runtime.allocate(fill_bytes);
    mine.random.seed(self.index + 1);
    mine.file = file.number;
    read_through(file, mine.buffer.as<char>(), fill_bytes, team_bytes);
    if (self.index == 1) {
      team.help();
    } else {
      team.timed(2, [](unsigned) {});  // the other one has filled its pages, too
      measure_team(team, readers, bare, "files of their own", false);
      readers[1].file = readers[0].file;
      measure_team(team, readers, bare, "one file", true);
      team.dismiss();
    }
  });
}

const Subcommand for_calls("cached-calls", "FILE",
                           "reads and writes of resident pages, of 256 MiB that are overwritten",
                           cached_calls);
const Subcommand for_optimizations(
    "optimizations", "FILE", "the page cache's optimisations, of 256 MiB that are overwritten",
    optimizations);
const Subcommand for_placements("placements", "FILE",
                                "automatic beside each placement, on 256 MiB that are overwritten",
                                placements);
const Subcommand for_scaling("scaling", "FILE OTHER",
                             "hits of two threads beside those of one, of 128 MiB each",
                             measure_scaling);

}  // namespace
