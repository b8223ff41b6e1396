// The runtime that owns a device and the I/O server beside it.
//
//   ferry::Runtime runtime;                                  // a `cpu` device, a server, an arena
//   ferry::Buffer buffer = runtime.allocate(1 << 20);        // device memory
//   runtime.run([&](ferry::DeviceThread& self) {             // on every device thread
//     int file = self.files.open("/data/input", O_RDONLY);
//     int64_t got = self.files.pread(file, buffer.data(), buffer.bytes(), 0);
//     ...
//   });
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ferry/device.hpp>
#include <ferry/error.hpp>
#include <ferry/storage_engine.hpp>

namespace ferry {

struct RuntimeOptions {
  // CPUs as in "0-3,8". Empty: the last CPUs this process may use go to the server, the others to
  // the device; on a single CPU they share it.
  std::string device_cpus;
  std::string server_cpus;
  unsigned device_threads = 0;  // 0: one per device CPU
  unsigned server_threads = 0;  // 0: the profile's, else one per eight device threads, at least one
  std::uint64_t arena_bytes = std::uint64_t{64} << 20;  // device memory for programs
  unsigned rings = 0;                                   // 0: one per server thread
  // The page cache in device memory: 0 is none. Its pages are 4 KiB to 2 MiB, a power of two.
  std::uint64_t cache_bytes = 0;
  std::uint32_t page_bytes = 0;  // 0: the profile's, else 64 KiB
  device::cache::Switches cache_switches{};
  // Cores of the device that serve cached calls for the others (placement `service`). 0: none are
  // set aside, and the I/O server's threads serve such calls beside their requests.
  unsigned service_threads = 0;
  // Where reads and writes are executed unless a program says otherwise (FileCalls::use).
  device::Placement placement = device::Placement::host;
  // What placement `automatic` decides from, whatever the storage; else the profile's numbers for
  // the storage of a file, else built-in ones.
  std::optional<device::Crossovers> crossovers;
  // How far ahead of one sequential stream the page cache reads (at most a sixteenth of it); else
  // the profile's, else 8 MiB.
  std::optional<std::uint32_t> readahead_bytes_max;
  // Whether what `ferry tune` measured is used: $FERRY_PROFILE, else ferry/profile.toml in
  // $XDG_CONFIG_HOME or ~/.config. What is set above always goes before it.
  bool use_profile = true;
  // Where most of the program's files lie: the page size and the server's threads are those that
  // the profile has for this storage. Empty: the working directory.
  std::string storage_path;
  unsigned files_max = 1024;  // open at the same time, at most 65536
  StorageEngine engine = StorageEngine::automatic;
  // How long waits spin before they sleep; negative: 500 us for callers and 100 us for the server
  // where every spinning thread has a CPU of its own, not at all elsewhere.
  std::chrono::microseconds device_spin{-1};
  std::chrono::microseconds server_spin{-1};
  // How long a server thread may stand still outside the storage before it is declared dead and the
  // calls that wait for it return -EIO. Time in which the whole process is stopped does not count.
  std::chrono::milliseconds liveness_timeout{5000};
};

// Device memory. Freed on destruction; must not outlive its runtime.
class Buffer {
 public:
  Buffer() = default;
  Buffer(void* data, std::uint64_t bytes, std::function<void(void*)> release)
      : data_(data, std::move(release)), bytes_(bytes) {}

  void* data() const { return data_.get(); }
  std::uint64_t bytes() const { return bytes_; }
  template <class T>
  T* as() const {
    return static_cast<T*>(data_.get());
  }

 private:
  std::unique_ptr<void, std::function<void(void*)>> data_{nullptr, [](void*) {}};
  std::uint64_t bytes_ = 0;
};

// One device thread, as its program sees it.
struct DeviceThread {
  unsigned index;  // 0 to count - 1
  unsigned count;
  device::FileCalls<device::ThreadGroup> files;
};

// The profile, and what became of it.
struct ProfileInfo {
  std::string path;     // where it is, or would be; empty: none is wanted
  std::string storage;  // of RuntimeOptions::storage_path, like "ext4 on vda"; empty: not looked up
  bool applies = false;               // to that storage
  std::string why;                    // or why not
  std::vector<std::string> storages;  // those mounted here whose files get settings of their own
};

// What is in force; for `ferry info` and for results.
struct RuntimeInfo {
  std::string device_cpus;
  unsigned device_threads = 0;
  std::string server_cpus;
  unsigned server_threads = 0;
  std::string service_cpus;  // set aside, or shared with the device's threads
  unsigned service_threads = 0;
  std::uint32_t page_bytes = 0;
  // For files on the storage of RuntimeOptions::storage_path; others may have other ones.
  device::Crossovers crossovers;
  std::string crossovers_source;  // "built-in", "profile" or "options"
  std::uint32_t readahead_bytes_max = 0;
  // How many asynchronous calls a thread should keep in flight there; 0: not measured. Advice for
  // programs: the runtime does nothing with it.
  unsigned queue_depth = 0;
  ProfileInfo profile;
  bool oversubscribed = false;  // some waits do not spin, because there are too few CPUs
  std::uint64_t arena_bytes = 0;
  std::string arena_pages;
  std::string storage_engine;
  std::vector<std::string> notes;  // what is degraded, and why
};

// Counted since the runtime was made.
struct RuntimeStatistics {
  // Device side.
  std::uint64_t calls = 0;
  std::uint64_t batches = 0;
  std::uint64_t doorbells = 0;
  std::uint64_t parks = 0;
  std::uint64_t staged_calls = 0;
  std::uint64_t staged_bytes = 0;
  std::uint64_t served_calls = 0;  // placement `service`: executed for those who made them
  // Server side, all threads together.
  std::uint64_t requests = 0;
  std::uint64_t refused_requests = 0;
  std::uint64_t bytes_read = 0;
  std::uint64_t bytes_written = 0;
  std::uint64_t inline_operations = 0;
  std::uint64_t engine_operations = 0;
  std::uint64_t pool_operations = 0;
  std::uint64_t server_parks = 0;
  std::uint64_t server_cpu_ns = 0;
  std::uint64_t server_voluntary_switches = 0;
  std::uint64_t server_involuntary_switches = 0;
  // Page cache.
  device::cache::Counters cache{};
};

struct ShutdownReport {
  bool finished = false;      // nothing is left under way, nor to be written back
  unsigned files_closed = 0;  // that programs had left open
  std::vector<std::string> errors;
};

// In a child of fork() the calls of the parent's runtime throw ferry::Error (ECHILD): its server
// and its device memory are not there.
class Runtime {
 public:
  using Program = std::function<void(DeviceThread&)>;

  // Throws ferry::Error (memory, a CPU that is not allowed, io_uring demanded and refused).
  explicit Runtime(const RuntimeOptions& options = {});
  // shutdown() with ten seconds to spare, then waits for what could not be cancelled.
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  // Runs the program on every device thread and waits for all of them. Transfers it left in flight
  // are waited for. Rethrows the first exception. One program at a time: a second call waits.
  void run(const Program& program);

  // Programs that run from now on use these optimisations of the page cache; a program that runs
  // is waited for. Calls that the server's loops execute for others (placement `service` without
  // cores set aside) keep to RuntimeOptions::cache_switches.
  void use_cache_switches(const device::cache::Switches& switches);

  // `alignment_bytes` is a power of two. Throws ferry::Error (ENOMEM). Thread-safe.
  Buffer allocate(std::uint64_t bytes, std::uint64_t alignment_bytes = 4096);

  // Writes back what is dirty in the page cache, then ends the server: calls not under way yet
  // return -ESHUTDOWN, those under way may finish until the deadline and are cancelled then. The
  // deadline and 0.2 s bound all of it. What could not be written back is reported by file; then
  // the server goes on for that alone, and another shutdown() tries again. Thread-safe; programs
  // may be running.
  ShutdownReport shutdown(std::chrono::milliseconds deadline);

  RuntimeInfo info() const;
  RuntimeStatistics statistics() const;
  // For programs that make their own threads and groups.
  const device::Context& context() const;

 private:
  class Implementation;
  Implementation& mine() const;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace ferry
