// First writes of files, compared with tmpfs; and durable writes, compared with plain calls, with
// the bytes that reach the storage per byte written.
#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "micro/device_file.hpp"

namespace {

using namespace ferry;
using namespace ferry::benchmarks;

constexpr std::uint64_t rounds = 20;
constexpr std::uint64_t new_bytes = 64ULL << 20;
constexpr std::uint64_t sync_bytes = 16ULL << 20;
constexpr std::uint64_t sync_call_bytes = 64 << 10;
constexpr std::uint64_t large_bytes = 4 << 20;

// The device's calls, and the same to the kernel.
using Cached = DeviceFile::Files;
struct Plain {
  int open(const char* path, int flags, mode_t mode) const { return ::open(path, flags, mode); }
  std::int64_t pwrite(int file, const void* from, std::uint64_t bytes, std::int64_t at) const {
    return ::pwrite(file, from, bytes, at);
  }
  int fsync(int file) const { return ::fsync(file); }
  int close(int file) const { return ::close(file); }
};

template <class Calls>
int open_new(Calls& calls, const std::string& path) {
  return opened(calls.open(path.c_str(), O_RDWR | O_CREAT, 0600), path);
}

// Seconds to open and write a new file, without closing it or with that.
template <class Calls>
double write_new(Calls& calls, const std::string& path, const char* from, std::uint64_t bytes,
                 bool with_close) {
  const auto begin = Clock::now();
  const int file = open_new(calls, path);
  for (std::uint64_t at = 0; at < new_bytes; at += bytes)
    check(calls.pwrite(file, from, bytes, static_cast<std::int64_t>(at)), bytes);
  const double before_close = seconds_since(begin);
  check(calls.close(file), 0);
  const double all = seconds_since(begin);
  ::unlink(path.c_str());
  return with_close ? all : before_close;
}

void measure_new(Cached& cached, const std::string& directory, const std::string& tmpfs,
                 const char* from, const std::string& name, std::uint64_t bytes) {
  Plain plain;
  for (const bool with_close : {false, true}) {
    const std::string measure = "new file, " + name + (with_close ? ", with close" : "");
    measure_pairs(
        measure + ": tmpfs / compute", "s",
        [&] { return write_new(plain, tmpfs + "/ferry-new-file", from, bytes, with_close); },
        [&] { return write_new(cached, directory + "/new-file", from, bytes, with_close); });
  }
}

// Seconds to overwrite a file and make that durable.
template <class Calls>
double write_and_sync(Calls& calls, int file, const char* from) {
  const auto begin = Clock::now();
  for (std::uint64_t at = 0; at < sync_bytes; at += sync_call_bytes)
    check(calls.pwrite(file, from, sync_call_bytes, static_cast<std::int64_t>(at)),
          sync_call_bytes);
  check(calls.fsync(file), 0);
  return seconds_since(begin);
}

void measure_sync(Cached& cached, const std::string& directory, const char* from) {
  const std::string name = "write + fsync: pwrite + fsync / compute";
  if (!is_wanted(name)) return;
  Plain plain;
  const int ours = open_new(cached, directory + "/cached-sync");
  const int theirs = open_new(plain, directory + "/plain-sync");
  measure_pairs(
      name, "s", [&] { return write_and_sync(plain, theirs, from); },
      [&] { return write_and_sync(cached, ours, from); });
  check(cached.close(ours), 0);
  check(plain.close(theirs), 0);
}

// Scattered writes of every size and alignment, none over another, then fsync: what the storage was
// given for each byte, as the server counts it.
void measure_bytes(const Runtime& runtime, Cached& cached, const std::string& directory,
                   const char* from) {
  constexpr std::uint64_t slot_bytes = 8192;
  constexpr std::uint64_t writes = 4096;
  const std::string name = "bytes written to storage per byte dirtied";
  if (!is_wanted(name)) return;
  const int file = open_new(cached, directory + "/scattered");
  check(cached.pwrite(file, from, 1, static_cast<std::int64_t>(sync_bytes * 2 - 1)), 1);
  check(cached.fsync(file), 0);
  std::vector<std::uint64_t> slots(sync_bytes * 2 / slot_bytes - 1);
  std::iota(slots.begin(), slots.end(), 0);
  std::mt19937_64 random(1);
  measure_figure(name, "bytes", rounds, [&] {
    std::shuffle(slots.begin(), slots.end(), random);
    const std::uint64_t before = runtime.statistics().bytes_written;
    std::uint64_t dirtied = 0;
    for (std::uint64_t i = 0; i < std::min<std::uint64_t>(writes, slots.size()); ++i) {
      const std::uint64_t begin = random() % (slot_bytes / 2);
      const std::uint64_t bytes = 1 + random() % (slot_bytes / 2);
      const auto at = static_cast<std::int64_t>(slots[i] * slot_bytes + begin);
      check(cached.pwrite(file, from, bytes, at), bytes);
      dirtied += bytes;
    }
    check(cached.fsync(file), 0);
    return static_cast<double>(runtime.statistics().bytes_written - before) /
           static_cast<double>(dirtied);
  });
  check(cached.close(file), 0);
}

void new_files(const BenchmarkOptions& options) {
  on_device(one_thread(272 << 20), large_bytes,
            [&](Runtime& runtime, DeviceThread& self, const char* from) {
              Cached& cached = self.files;
              measure_new(cached, options.path, options.other, from, "4 KiB", 4096);
              measure_new(cached, options.path, options.other, from, "4 MiB", large_bytes);
              measure_sync(cached, options.path, from);
              measure_bytes(runtime, cached, options.path, from);
            });
}

const Subcommand registered("new-files", "FOLDER TMPFS",
                            "new files beside those of a tmpfs, and fsync", new_files);

}  // namespace
