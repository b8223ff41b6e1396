// Bulk transfers: reads and writes between files and memory of the host or of a GPU, without a
// device program. A path names a file of a mounted file system or, as "nfs://server/export/path",
// of another storage.
//
//   ferry::bulk::File file("/data/input");        // an engine is found or made: Engine::common()
//   std::vector<char> data(file.size());
//   file.read_at(data.data(), data.size(), 0);  // returns bytes
//   ferry::bulk::Future later = file.read_at_async(data.data(), 4096, 0);
//   later.get();
//
// The arena of a `cpu` device is memory of the host too: a ferry::Buffer's data() may be named. So
// may memory of an NVIDIA GPU, allocated in its primary context, as the CUDA runtime does: the
// driver is asked whose memory a pointer names, once the program has loaded it. Kernels that still
// use such memory have to be waited for first; once a transfer has ended, all streams see what it
// read. Everything here is thread-safe, except that one Future belongs to one thread at a time.
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

namespace ferry::bulk {

class Request;
class Scheduler;
class OpenFile;

// How bytes reach the file: through the kernel's page cache, or past it.
enum class Route : std::uint8_t { automatic, buffered, direct };

// Zero and `automatic` leave the choice to the engine, for each transfer anew; anything else pins
// it.
struct EngineOptions {
  unsigned workers = 0;          // threads that transfer
  unsigned depth = 0;            // direct transfers in flight per worker, at most 64
  std::uint64_t task_bytes = 0;  // what a large transfer is cut into; a multiple of 4096
  Route route = Route::automatic;
  StorageEngine storage = StorageEngine::automatic;
};

// Counted since the engine was made.
struct EngineStatistics {
  std::uint64_t transfers = 0;  // calls: a batch is one
  std::uint64_t parts = 0;
  std::uint64_t failed_parts = 0;
  std::uint64_t cancelled_transfers = 0;
  std::uint64_t bytes_read = 0;
  std::uint64_t bytes_written = 0;
  std::uint64_t copied_tasks = 0;  // executed where they were: the page cache had or took the data
  std::uint64_t cached_tasks = 0;  // read into the page cache by the storage's engine
  std::uint64_t direct_tasks = 0;  // past the page cache, straight between disk and buffer
  std::uint64_t staged_tasks = 0;  // past the page cache, through the staging memory
  std::uint64_t gpu_tasks = 0;     // tasks of any way whose memory is a GPU's: through pinned_bytes
  std::uint64_t gpu_direct_tasks = 0;  // of these, by GPUDirect Storage, past the host's memory
  std::uint64_t gpu_direct_bytes = 0;  // and what they moved
  std::uint64_t staging_bytes = 0;     // memory that the workers hold for staging
  std::uint64_t pinned_bytes = 0;      // and page-locked memory on the way to and from GPUs
  unsigned workers_started = 0;
};

// What a part of a transfer asked for and what became of it.
struct Failure {
  std::size_t part = 0;  // its index in the batch
  std::string path;
  std::uint64_t offset = 0;  // the range of the part
  std::uint64_t bytes = 0;
  int error_number = 0;
};

// Thrown by Future::get() when parts failed; code() is the errno of the first, and what() names its
// path and range.
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

// The end of a transfer that is under way. Ready means that nothing reads or writes the transfer's
// memory any more, whether it succeeded, failed or was cancelled. Destroying a future that is not
// ready cancels the transfer and waits for it.
class Future {
 public:
  Future() = default;
  Future(std::shared_ptr<Scheduler> scheduler, std::shared_ptr<Request> request)
      : scheduler_(std::move(scheduler)), request_(std::move(request)) {}
  ~Future();
  Future(Future&& other) noexcept = default;
  Future& operator=(Future&& other) noexcept;
  Future(const Future&) = delete;
  Future& operator=(const Future&) = delete;

  bool valid() const { return request_ != nullptr; }
  bool ready() const;
  // The calling thread helps with copies out of the page cache while it waits.
  void wait() const;
  // Likewise. False: the time was up first.
  bool wait_for(std::chrono::nanoseconds timeout) const;
  // Waits; the bytes transferred by all parts together. Throws TransferError when a part failed,
  // ferry::Error (ECANCELED) after cancel(). Calls `progress` on this thread every `interval` and
  // once at the end.
  std::uint64_t get(const ProgressFunction& progress = {},
                    std::chrono::milliseconds interval = std::chrono::milliseconds(100)) const;
  // Waits; bytes of each part, or a negative errno. A read is short at the end of the file.
  const std::vector<std::int64_t>& results() const;
  // Waits; the parts that failed, none after a success.
  std::vector<Failure> failures() const;
  Progress progress() const;
  // Ends the transfer early. It becomes ready once nothing of it is under way; its parts have
  // transferred some prefix, or say -ECANCELED.
  void cancel() const;
  // Calls `callback` once, when ready: on a thread of the engine that does nothing else, or at once
  // on this one if it is ready already. It must not throw.
  void then(std::function<void()> callback) const;
  // Gives up the wait: the transfer's memory must stay until it is over, as `then` tells.
  void detach() { request_.reset(); }

 private:
  friend std::size_t wait_any(std::span<const Future* const> futures);
  void settle();
  void check_mine() const;  // throws ferry::Error (ECHILD)
  std::shared_ptr<Scheduler> scheduler_;
  std::shared_ptr<Request> request_;
};

// Waits until one of them is ready; its index. `futures` holds at least one.
std::size_t wait_any(std::span<const Future* const> futures);
void wait_all(std::span<const Future* const> futures);

class File;

// One range of one file and the memory it goes to or comes from. A write only reads `data`.
struct Part {
  const File* file = nullptr;
  void* data = nullptr;
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;
};

// A whole small file. Neighbours share `memory`.
struct Contents {
  std::shared_ptr<std::byte> memory;
  const std::byte* data = nullptr;
  std::uint64_t bytes = 0;
  int error_number = 0;  // 0: it was read
};

// What a path leads to.
struct PathStatus {
  std::uint64_t size_bytes = 0;
  std::int64_t modified_ns = 0;  // since 1970
  std::uint32_t mode = 0;        // type and permissions, as stat(2) has them
};

// What a directory holds. The status is that of the name: a symbolic link is not followed.
struct PathEntry {
  std::string name;
  PathStatus status;
};

// What the engine would do with a large read of a file as it is now.
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

// The workers that transfer. A cheap handle: copies name the same engine, which ends with the last
// handle, file and future. In a child of fork() an engine of the parent is refused (ECHILD).
class Engine {
 public:
  // Throws ferry::Error (EINVAL for options that cannot be, io_uring demanded and refused). Threads
  // start with the first transfer that has a use for them.
  explicit Engine(const EngineOptions& options = {});
  // One engine with default options for whoever has no wishes; lives while somebody holds it.
  static Engine common();

  // Batches: all parts in one call. The memory must stay until the future is ready.
  Future read(std::span<const Part> parts) const { return transfer(false, parts); }
  Future write(std::span<const Part> parts) const { return transfer(true, parts); }
  // Opens, reads and closes every path, in order of the paths; for many files that fit in memory.
  std::vector<Contents> read_files(std::span<const std::string> paths) const;

  // Of any storage. These throw ferry::Error.
  PathStatus status(const std::string& path) const;
  void unlink(const std::string& path) const;
  // Both of the same storage; an existing file `to` is replaced.
  void rename(const std::string& from, const std::string& to) const;
  // What the directory holds, in order of the names.
  std::vector<PathEntry> list(const std::string& path) const;
  void make_directory(const std::string& path, std::uint32_t mode = 0777) const;
  void remove_directory(const std::string& path) const;  // an empty one

  // Throws ferry::Error when the path cannot be opened for reading.
  Explanation explain(const std::string& path) const;
  EngineStatistics statistics() const;
  // In force for large transfers of what the page cache has: nothing is zero; `route` as it was
  // given.
  EngineOptions options() const;
  // Cancels what is under way and waits for it and for callbacks. Later transfers are refused
  // (ESHUTDOWN).
  void shut_down() const;

  // For Ferry itself: an engine on a scheduler that is there.
  explicit Engine(std::shared_ptr<Scheduler> scheduler);

 private:
  friend class File;
  Future transfer(bool writing, std::span<const Part> parts) const;
  std::shared_ptr<Scheduler> scheduler_;
};

// An open file. Transfers under way keep it open; close() waits for them.
class File {
 public:
  // `flags` as for open(2); O_DIRECT pins the route of this file. Throws ferry::Error.
  // A directory is refused (EISDIR), of which there is nothing to read.
  File(const Engine& engine, const std::string& path, int flags = O_RDONLY,
       std::uint32_t mode = 0666);
  // In a child of fork(): the file that the parent has open, on an engine of the child. A file of a
  // mounted file system is opened by its descriptor, whatever its name leads to by now; where the
  // child has closed that, by the name, and another file there is refused (ESTALE). A server's file
  // is opened by its name.
  File(const Engine& engine, const File& parents);
  // With Engine::common(). Whoever opens one file after the other holds that engine meanwhile: its
  // threads end with the last file.
  explicit File(const std::string& path, int flags = O_RDONLY, std::uint32_t mode = 0666)
      : File(Engine::common(), path, flags, mode) {}
  ~File();
  File(File&& other) noexcept = default;
  File& operator=(File&& other) noexcept;
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  // Bytes transferred; a read is short at the end of the file. Throws TransferError. `progress` is
  // called as by Future::get(); what it throws ends the transfer first.
  std::uint64_t read_at(void* to, std::uint64_t bytes, std::uint64_t offset,
                        const ProgressFunction& progress = {}) const;
  std::uint64_t write_at(const void* from, std::uint64_t bytes, std::uint64_t offset,
                         const ProgressFunction& progress = {}) const;
  Future read_at_async(void* to, std::uint64_t bytes, std::uint64_t offset) const;
  Future write_at_async(const void* from, std::uint64_t bytes, std::uint64_t offset) const;
  // Adds at the end; the file's size afterwards. The file must be open with O_APPEND, and the
  // memory the host's.
  std::uint64_t append(const void* from, std::uint64_t bytes) const;

  // These throw ferry::Error.
  std::uint64_t size() const;
  void truncate(std::uint64_t bytes) const;
  void sync() const;  // data and metadata are durable
  // Waits for transfers under way, then closes. Reports what close(2) reports; a second call does
  // nothing.
  void close();

  const std::string& path() const;
  // Of a file of a mounted file system, as long as it is open; elsewhere ferry::Error (ENOTSUP).
  // Transfers leave the descriptor's own position alone.
  int descriptor() const;

 private:
  friend class Engine;
  OpenFile& open_file() const;
  std::shared_ptr<Scheduler> scheduler_;
  std::shared_ptr<OpenFile> file_;
  std::string path_;
};

}  // namespace ferry::bulk
