// The runtime: owns a device and its I/O server.
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
  // CPU lists like "0-3,8". Empty: the server gets the last CPUs that this process may use, the
  // device the others; on a single CPU they share it.
  std::string device_cpus;
  std::string server_cpus;
  unsigned device_threads = 0;  // at most 16384; 0: one per device CPU
  // At most 4096. 0: the profile's, else one per eight device threads or CPUs, whichever are fewer
  unsigned server_threads = 0;
  std::uint64_t arena_bytes = std::uint64_t{64} << 20;  // device memory for programs
  unsigned rings = 0;                                   // at most 65536; 0: one per server thread
  // The page cache in device memory: 0 for none. Pages are 4 KiB to 2 MiB, a power of two.
  std::uint64_t cache_bytes = 0;
  std::uint32_t page_bytes = 0;  // 0: the profile's, else 64 KiB
  device::cache::Switches cache_switches{};
  // Places for threads of other processes, which read what the page cache holds. With any, the
  // arena lies in memory that they can map: Runtime::arena_file().
  unsigned reader_groups = 0;
  // Device cores reserved for serving cached calls of others (placement `service`). 0: none; the
  // I/O server's threads serve them too.
  unsigned service_threads = 0;
  // Where reads and writes run unless a program chooses (FileCalls::use).
  device::Placement placement = device::Placement::host;
  // What placement `automatic` decides by, on any storage; else the profile's values for a file's
  // storage, else built-in ones.
  std::optional<device::Crossovers> crossovers;
  // How far the page cache reads ahead of a sequential stream, at most a sixteenth of its size;
  // else the profile's value, else 8 MiB.
  std::optional<std::uint32_t> readahead_bytes_max;
  // Whether to use the profile of `ferry tune`: $FERRY_PROFILE, else ferry/profile.toml in
  // $XDG_CONFIG_HOME or ~/.config. Settings above take precedence.
  bool use_profile = true;
  // A path on the storage that holds most of the program's files: selects the profile's page size
  // and number of server threads. Empty: the working directory.
  std::string storage_path;
  unsigned files_max = 1024;  // open at the same time, at most 65536
  StorageEngine engine = StorageEngine::automatic;
  // How long waits spin before they sleep; negative: 500 us for callers and 100 us for the server
  // if every spinning thread has its own CPU, otherwise 0.
  std::chrono::microseconds device_spin{-1};
  std::chrono::microseconds server_spin{-1};
  // How long a server thread may be stuck outside the storage before it is declared dead and calls
  // that wait for it return -EIO. Time while the whole process is stopped does not count.
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

// One device thread, as seen by its program.
struct DeviceThread {
  unsigned index;  // 0 to count - 1
  unsigned count;
  device::FileCalls<device::ThreadGroup> files;
};

// The profile, and whether it applies.
struct ProfileInfo {
  std::string path;     // its path, even if it does not exist; empty: not used
  std::string storage;  // of RuntimeOptions::storage_path, like "ext4 on vda"; empty: not looked up
  bool applies = false;               // to that storage
  std::string why;                    // or why not
  std::vector<std::string> storages;  // mounted storages with their own settings
};

// The settings in force; for `ferry info` and for results.
struct RuntimeInfo {
  std::string device_cpus;
  unsigned device_threads = 0;
  std::string server_cpus;
  unsigned server_threads = 0;
  std::string service_cpus;  // reserved, or shared with the device's threads
  unsigned service_threads = 0;
  std::uint32_t page_bytes = 0;
  // For files on the storage of RuntimeOptions::storage_path; others may differ.
  device::Crossovers crossovers;
  std::string crossovers_source;  // "built-in", "profile" or "options"
  std::uint32_t readahead_bytes_max = 0;
  // Tried out when the runtime was made, if it has a page cache of 64 MiB or more that is not
  // shared with other processes; else built-in numbers.
  device::StreamingCopies streaming_copies;
  // Advice for programs: calls that a thread should keep in flight there; 0: not measured. The
  // runtime does not use it.
  unsigned queue_depth = 0;
  ProfileInfo profile;
  bool oversubscribed = false;  // some waits do not spin, for lack of CPUs
  std::uint64_t arena_bytes = 0;
  std::string arena_pages;
  std::string storage_engine;
  std::vector<std::string> notes;  // degraded features, and why
};

// Counters since the runtime was made.
struct RuntimeStatistics {
  // Device side.
  std::uint64_t calls = 0;
  std::uint64_t batches = 0;
  std::uint64_t doorbells = 0;
  std::uint64_t parks = 0;
  std::uint64_t staged_calls = 0;
  std::uint64_t staged_bytes = 0;
  std::uint64_t served_calls = 0;      // placement `service`: executed for other callers
  std::uint64_t taken_back_calls = 0;  // likewise: not begun in time, so their callers did
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
  bool finished = false;      // nothing is in flight or dirty
  unsigned files_closed = 0;  // left open by programs
  std::vector<std::string> errors;
};

// In a child of fork(), calls of the parent's runtime throw ferry::Error (ECHILD): the child has
// neither its server nor its device memory.
class Runtime {
 public:
  using Program = std::function<void(DeviceThread&)>;

  // Throws ferry::Error (no memory, a forbidden CPU, io_uring required and refused).
  FERRY_FOR_THESE_LINES explicit Runtime(const RuntimeOptions& options = {});
  // shutdown() with ten seconds' deadline, then waits for transfers that cannot be cancelled.
  ~Runtime();
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  // Runs the program on every device thread, and waits for all of them and for transfers they left
  // in flight. Rethrows the first exception. Runs one program at a time: a second call waits.
  void run(const Program& program);

  // Sets the page cache's optimisations for later programs; waits for a running one. Calls that the
  // server's threads execute for others (placement `service` without reserved cores) keep to
  // RuntimeOptions::cache_switches.
  void use_cache_switches(const device::cache::Switches& switches);

  // `alignment_bytes` is a power of two. Throws ferry::Error (ENOMEM). Thread-safe.
  Buffer allocate(std::uint64_t bytes, std::uint64_t alignment_bytes = 4096);

  // Writes back dirty pages, then ends the server: new calls return -ESHUTDOWN, calls in flight may
  // finish until the deadline and are then cancelled. Takes at most 0.2 s more. Reports unwritten
  // data by file; the server then stays for it, and another shutdown() tries again. Thread-safe;
  // programs may be running.
  ShutdownReport shutdown(std::chrono::milliseconds deadline);

  RuntimeInfo info() const;
  RuntimeStatistics statistics() const;
  // For programs with their own threads and groups.
  const device::Context& context() const;
  // The arena's memfd, which belongs to the runtime; -1 without RuntimeOptions::reader_groups.
  int arena_file() const;

 private:
  class Implementation;
  Implementation& mine() const;
  std::unique_ptr<Implementation> implementation_;
};

}  // namespace ferry
