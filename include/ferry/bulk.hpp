// Bulk transfers: reads and writes between files and memory of the host or of a GPU, without a
// device program. A path names a mounted file or, as "nfs://server/export/path", a file of another
// storage.
//
//   ferry::bulk::File file("/data/input");        // uses Engine::common()
//   std::vector<char> data(file.size());
//   file.read_at(data.data(), data.size(), 0);  // returns bytes
//   ferry::bulk::Future later = file.read_at_async(data.data(), 4096, 0);
//   later.get();
//
// Memory may also be the arena of a `cpu` device (a ferry::Buffer's data()) or that of an NVIDIA
// GPU, allocated in its primary context, as the CUDA runtime does; once the program has loaded the
// CUDA driver, Ferry asks it whose memory a pointer is. Wait for kernels that use such memory
// first; after a transfer, all streams see its data. Everything here is thread-safe, except that
// one Future belongs to one thread at a time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <fcntl.h>

#include <ferry/error.hpp>
#include <ferry/storage_engine.hpp>

namespace ferry {
enum class Direction : std::uint8_t;
}

namespace ferry::bulk {

class BulkRequest;
class Scheduler;
class EngineFile;

// How bytes reach the file: through the kernel's page cache, or past it.
enum class Route : std::uint8_t { automatic, buffered, direct };

// With zero and `automatic`, the engine chooses for each transfer; other values pin the choice.
struct EngineOptions {
  unsigned workers = 0;          // transferring threads; more where a storage holds these up
  unsigned depth = 0;            // direct transfers in flight per worker, at most 64
  std::uint64_t task_bytes = 0;  // size of tasks; a multiple of 4096
  Route route = Route::automatic;
  StorageEngine storage = StorageEngine::automatic;
};

// Counters since the engine was made.
struct EngineStatistics {
  std::uint64_t transfers = 0;  // a batch counts as one
  std::uint64_t parts = 0;
  std::uint64_t failed_parts = 0;
  std::uint64_t cancelled_transfers = 0;
  std::uint64_t bytes_read = 0;
  std::uint64_t bytes_written = 0;
  std::uint64_t copied_tasks = 0;      // copied from or to the page cache
  std::uint64_t cached_tasks = 0;      // read into the page cache by the storage engine
  std::uint64_t direct_tasks = 0;      // past the page cache, directly between disk and buffer
  std::uint64_t staged_tasks = 0;      // past the page cache, through bounce buffers
  std::uint64_t gpu_tasks = 0;         // tasks of any kind on GPU memory: through pinned_bytes
  std::uint64_t gpu_direct_tasks = 0;  // of these, by GPUDirect Storage, past host memory
  std::uint64_t gpu_direct_bytes = 0;  // bytes they moved
  std::uint64_t staging_bytes = 0;     // the workers' bounce buffers
  std::uint64_t pinned_bytes = 0;      // page-locked memory for transfers to and from GPUs
  unsigned workers_started = 0;
};

// One part of a transfer and its outcome.
struct Failure {
  std::size_t part = 0;  // index in the batch
  std::string path;
  std::uint64_t offset = 0;  // the part's range
  std::uint64_t bytes = 0;
  int error_number = 0;
};

// Thrown by Future::get() when parts failed; code() is the first errno, what() its path and range.
class TransferError : public Error {
 public:
  explicit TransferError(std::vector<Failure> failures);
  const std::vector<Failure>& failures() const { return failures_; }

 private:
  std::vector<Failure> failures_;
};

struct Progress {
  std::uint64_t bytes_done = 0;
  std::uint64_t bytes_total = 0;
};
using ProgressFunction = std::function<void(const Progress&)>;

// The result of a transfer in flight. Ready means that nothing accesses the transfer's memory any
// more, after success, failure or cancellation. Destroying a future before that cancels the
// transfer and waits for it.
class Future {
 public:
  Future() = default;
  Future(std::shared_ptr<Scheduler> scheduler, std::shared_ptr<BulkRequest> request)
      : scheduler_(std::move(scheduler)), request_(std::move(request)) {}
  ~Future();
  Future(Future&& other) noexcept = default;
  Future& operator=(Future&& other) noexcept;
  Future(const Future&) = delete;
  Future& operator=(const Future&) = delete;

  bool valid() const { return request_ != nullptr; }
  bool ready() const;
  // While it waits, the calling thread helps to copy from the page cache.
  void wait() const;
  // Likewise. Returns false on timeout.
  bool wait_for(std::chrono::nanoseconds timeout) const;
  // Waits, and returns the bytes of all parts together. Throws TransferError if a part failed,
  // ferry::Error (ECANCELED) after cancel(). Calls `progress` on this thread every `interval` and
  // at the end.
  std::uint64_t get(const ProgressFunction& progress = {},
                    std::chrono::milliseconds interval = std::chrono::milliseconds(100)) const;
  // Waits, and returns each part's bytes or negative errno. Reads are short at the end of the file.
  const std::vector<std::int64_t>& results() const;
  // Waits, and returns the failed parts, none after a success.
  std::vector<Failure> failures() const;
  Progress progress() const;
  // Cancels the transfer. It becomes ready once it has stopped; its parts have transferred a prefix
  // or return -ECANCELED.
  void cancel() const;
  // Calls `callback` once when ready: on a separate thread of the engine, or immediately on this
  // one if it is ready already. It must not throw.
  void then(std::function<void()> callback) const;
  // Does not wait: the transfer's memory must stay valid until it is ready; see `then`.
  void detach() { request_.reset(); }

 private:
  friend std::size_t wait_any(std::span<const Future* const> futures);
  void settle();
  void check_mine() const;  // throws ferry::Error (ECHILD)
  std::shared_ptr<Scheduler> scheduler_;
  std::shared_ptr<BulkRequest> request_;
};

// Waits until one of them is ready; returns its index. `futures` must not be empty.
std::size_t wait_any(std::span<const Future* const> futures);
void wait_all(std::span<const Future* const> futures);

class File;

// One range of one file and its memory. Writes only read `data`.
struct Part {
  const File* file = nullptr;
  void* data = nullptr;
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;
};

// A complete small file. Neighbours share `memory`.
struct Contents {
  std::shared_ptr<std::byte> memory;
  const std::byte* data = nullptr;
  std::uint64_t bytes = 0;
  int error_number = 0;  // 0 on success
};

// Attributes of a path.
struct PathStatus {
  std::uint64_t size_bytes = 0;
  std::int64_t modified_ns = 0;  // since 1970
  std::uint32_t mode = 0;        // type and permissions, as in stat(2)
};

// Of an open file. Device and inode are those of another one if both are the same file, also by
// different names, but not by different names of their server.
struct OpenStatus {
  std::uint64_t size_bytes = 0;
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
};

// An entry of a directory. Symbolic links are not followed.
struct PathEntry {
  std::string name;
  PathStatus status;
};

// How the engine would execute a large read of a file now.
struct Explanation {
  std::string route;  // "buffered" or "direct"
  std::string storage;
  std::string storage_engine;
  unsigned workers = 0;
  unsigned depth = 0;
  std::uint64_t task_bytes = 0;
  std::uint64_t file_bytes = 0;
  std::uint64_t resident_bytes = 0;  // in the kernel's page cache
  bool residency_known = false;
  std::vector<std::string> reasons;
};

// The transferring threads. A cheap handle: copies share the engine, which ends with its last
// handle, file and future. A child of fork() cannot use its parent's engine (ECHILD).
class Engine {
 public:
  // Throws ferry::Error (EINVAL for invalid options, or if io_uring is required and refused).
  // Threads start when a transfer first needs them.
  explicit Engine(const EngineOptions& options = {});
  // Calls without an engine share this one: created on first use, destroyed with its last user.
  static Engine common();

  // Batches: all parts in one call. The memory must stay valid until the future is ready.
  Future read(std::span<const Part> parts) const;
  Future write(std::span<const Part> parts) const;
  // Opens, reads and closes every path, in order; for many files that fit in memory.
  std::vector<Contents> read_files(std::span<const std::string> paths) const;

  // For all storages. These throw ferry::Error.
  PathStatus status(const std::string& path) const;
  void unlink(const std::string& path) const;
  // Within one storage; an existing file `to` is replaced.
  void rename(const std::string& from, const std::string& to) const;
  // The directory's entries, in order of their names.
  std::vector<PathEntry> list(const std::string& path) const;
  void make_directory(const std::string& path, std::uint32_t mode = 0777) const;
  void remove_directory(const std::string& path) const;  // must be empty

  // Throws ferry::Error if the path cannot be opened for reading.
  Explanation explain(const std::string& path) const;
  EngineStatistics statistics() const;
  // The settings for large transfers of cached data: none is zero; `route` is as given.
  EngineOptions options() const;
  // Cancels transfers and waits for them and for callbacks. Later transfers fail (ESHUTDOWN).
  void shut_down() const;

  // Internal: an engine on an existing scheduler.
  explicit Engine(std::shared_ptr<Scheduler> scheduler);

 private:
  friend class File;
  Future transfer(Direction direction, std::span<const Part> parts) const;
  std::shared_ptr<Scheduler> scheduler_;
};

// An open file. Transfers in flight keep it open; close() waits for them.
class File {
 public:
  // `flags` as for open(2); O_DIRECT pins the route of this file. Throws ferry::Error, also for a
  // directory (EISDIR).
  File(const Engine& engine, const std::string& path, int flags = O_RDONLY,
       std::uint32_t mode = 0666);
  // In a child of fork(): the parent's open file, on an engine of the child. Reopens a mounted file
  // by its descriptor, whatever its name means now; if the child has closed that, by name, and
  // fails if another file has it (ESTALE). Reopens a server's file by name.
  File(const Engine& engine, const File& parents);
  // Uses Engine::common(), which ends with its last file; keep a handle to it when you open files
  // one after another.
  explicit File(const std::string& path, int flags = O_RDONLY, std::uint32_t mode = 0666)
      : File(Engine::common(), path, flags, mode) {}
  ~File();
  File(File&& other) noexcept = default;
  File& operator=(File&& other) noexcept;
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  // Return the bytes transferred; reads are short at the end of the file. Throw TransferError.
  // `progress` is called as by Future::get(); an exception from it cancels the transfer. On a file
  // opened with O_APPEND, write_at() appends, as on Linux, and transfers that are waited for later
  // cannot write (EINVAL): their pieces would come in any order.
  std::uint64_t read_at(void* to, std::uint64_t bytes, std::uint64_t offset,
                        const ProgressFunction& progress = {}) const;
  std::uint64_t write_at(const void* from, std::uint64_t bytes, std::uint64_t offset,
                         const ProgressFunction& progress = {}) const;
  Future read_at_async(void* to, std::uint64_t bytes, std::uint64_t offset) const;
  Future write_at_async(const void* from, std::uint64_t bytes, std::uint64_t offset) const;
  // Appends, and returns the file's size afterwards. Needs O_APPEND and host memory.
  std::uint64_t append(const void* from, std::uint64_t bytes) const;

  // These throw ferry::Error.
  std::uint64_t size() const;
  OpenStatus status() const;
  void truncate(std::uint64_t bytes) const;
  void sync() const;  // data and metadata are durable
  // Waits for transfers in flight and closes. Reports errors of close(2). May be repeated.
  void close();

  const std::string& path() const;
  // For open mounted files; otherwise ferry::Error (ENOTSUP). Transfers do not move the
  // descriptor's position.
  int descriptor() const;

 private:
  friend class Engine;
  EngineFile& open_file() const;
  std::shared_ptr<Scheduler> scheduler_;
  std::shared_ptr<EngineFile> file_;
  std::string path_;
};

}  // namespace ferry::bulk
