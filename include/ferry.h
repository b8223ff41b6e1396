// Ferry in C: bulk transfers between files and memory, layouts, and device programs on the `cpu`
// device. Link with `pkg-config --cflags --libs ferry`. C11; also valid C++.
//
//   ferry_file* file;
//   if (ferry_open(&file, "nfs://server/export/input", O_RDONLY, 0) < 0) {
//     fprintf(stderr, "%s\n", ferry_error_text());
//     return 1;
//   }
//   int64_t got = ferry_pread(file, memory, 4096, 0);  // bytes, or a negative errno
//   ferry_close(file);
//
// Errors. A function that returns `int` or `int64_t` returns a negative errno on failure; what it
// returns otherwise stands beside it. ferry_error_text() then has one line that says more, except
// for device calls, whose whole error is the errno. No function ends the process, throws, or
// installs a signal handler.
//
// Handles. ferry_file, ferry_future and ferry_runtime are handles, not memory. NULL gives -EINVAL,
// a handle that was closed, freed or destroyed gives -EBADF, and in a child of fork() a handle of
// its parent gives -ECHILD. A function that makes a handle sets it to NULL when it fails. No
// function is a cancellation point of pthread_cancel().
//
// Threads. Any thread may call any function at any time, also with a handle that others use, with
// two exceptions: a ferry_future belongs to one thread at a time, and device calls (ferry_device_*)
// belong to the thread that runs the device program.
//
// Structures that may grow begin with `struct_bytes`: set it to the size of the structure, as the
// _INIT macros do. A library that is newer than the program fills in what the program does not
// know; one that is older refuses what it does not know (-E2BIG), unless it is zero.
//
// Units end the names: _bytes, _ms, _ns. Collective I/O of MPI ranks is in ferry_mpi.h. Not in C
// yet: GPUs as devices, groups of lanes and views of cached pages. For these use the headers of
// C++.
#ifndef FERRY_H
#define FERRY_H

#include <stdint.h>

// NOLINTBEGIN(modernize-use-using,readability-identifier-naming): names in C
#ifdef __cplusplus
extern "C" {
#endif

#define FERRY_VERSION_MAJOR 0
#define FERRY_VERSION_MINOR 1
#define FERRY_VERSION_PATCH 0

// The version of the library that runs, like "0.1.0".
const char* ferry_version(void);

// One line on the last failure of a function of Ferry on this thread, "" if there was none. It
// stays as it is until the next failure on this thread.
const char* ferry_error_text(void);

// ---- bulk transfers -----------------------------------------------------------------------------

// An open file, and a transfer in flight.
typedef struct ferry_file ferry_file;
typedef struct ferry_future ferry_future;

// One range of one file and its memory.
typedef struct ferry_part {
  ferry_file* file;
  void* data;  // a write only reads it
  uint64_t bytes;
  uint64_t offset_bytes;
} ferry_part;

// Attributes of a path.
typedef struct ferry_path_status {
  uint64_t size_bytes;
  int64_t modified_ns;  // since 1970
  uint32_t mode;        // type and permission bits, as in struct stat
  uint32_t reserved;
} ferry_path_status;

// Opens a mounted file by its path, or a file of a server by its URI (nfs://, ceph:/, pvfs2:/).
// `flags` and `mode` as for open(2) (<fcntl.h>); O_DIRECT keeps to direct I/O. With O_APPEND,
// ferry_pwrite() appends, and writes that are waited for later are -EINVAL. 0 on success.
// -EISDIR for a directory, -ENOPKG without the client library of a server's files.
int ferry_open(ferry_file** file, const char* path, int flags, uint32_t mode);

// Waits for transfers in flight, then closes. Reports errors of writes that the storage reports on
// close. The handle is gone in any case, but for -ECHILD, a parent's, which has it still.
int ferry_close(ferry_file* file);

// Transfer `bytes` at an offset, and return the bytes transferred: fewer than asked for only when
// reading at the end of the file. Large reads use several threads. `data` is memory of the host, of
// a runtime, or of a GPU. The range ends at 2^63 - 4097 at most (else -EINVAL). A write is handed
// over to the storage when it returns; nothing else needs to be flushed.
int64_t ferry_pread(ferry_file* file, void* data, uint64_t bytes, uint64_t offset_bytes);
int64_t ferry_pwrite(ferry_file* file, const void* data, uint64_t bytes, uint64_t offset_bytes);

// Start the same transfer and return 0. The memory must stay valid, and may not be used, until the
// future is ready.
int ferry_pread_async(ferry_future** future, ferry_file* file, void* data, uint64_t bytes,
                      uint64_t offset_bytes);
int ferry_pwrite_async(ferry_future** future, ferry_file* file, const void* data, uint64_t bytes,
                       uint64_t offset_bytes);
// Many transfers as one, at most 2^20 parts. `parts` itself may be reused at once.
int ferry_read_parts(ferry_future** future, const ferry_part* parts, uint64_t count);
int ferry_write_parts(ferry_future** future, const ferry_part* parts, uint64_t count);

// 1 if the future is ready, 0 if not after `timeout_ms` (negative: waits without a limit). Ready
// means that nothing accesses the memory any more, after success, failure or cancellation.
int ferry_future_wait(ferry_future* future, int64_t timeout_ms);
// The same without waiting.
int ferry_future_test(ferry_future* future);
// Waits until at least one of `count` futures is ready; returns its index.
int64_t ferry_future_wait_any(ferry_future* const* futures, uint64_t count);
// Wait, and return the bytes transferred, of all parts together or of one. If a part failed, the
// whole has failed, with the first part's errno; other parts have been transferred.
int64_t ferry_future_result(ferry_future* future);
int64_t ferry_future_part_result(ferry_future* future, uint64_t part);
// Cancels the transfer; the future becomes ready soon, with -ECANCELED unless it was over already.
int ferry_future_cancel(ferry_future* future);
// Frees the future. One that is not ready is cancelled first, and waited for. Free every future.
int ferry_future_free(ferry_future* future);

// The size of the file.
int64_t ferry_size(ferry_file* file);
int ferry_truncate(ferry_file* file, uint64_t size_bytes);
// Data and metadata are durable when it returns.
int ferry_sync(ferry_file* file);
// Copies up to `bytes` between any two storages, fewer only at the end of `from`; UINT64_MAX copies
// all. Returns the bytes copied. -EINVAL if both ranges are of one file and overlap. A failure may
// leave a part of the range written.
int64_t ferry_copy(ferry_file* from, uint64_t from_offset_bytes, ferry_file* to,
                   uint64_t to_offset_bytes, uint64_t bytes);

// By path or URI. ferry_rename() replaces an existing file, and stays within one storage.
int ferry_stat(const char* path, ferry_path_status* status);
int ferry_unlink(const char* path);
int ferry_rename(const char* from, const char* to);

// ---- storages and layouts -----------------------------------------------------------------------

// How a file is striped over a storage's servers. Zero, -1 and "" let the storage choose, and stand
// for what it does not report.
typedef struct ferry_layout {
  uint64_t struct_bytes;
  uint64_t stripe_bytes;  // in a row on one server
  uint64_t object_bytes;  // CephFS: the size of an object
  uint32_t stripe_count;  // number of servers
  int32_t first_server;
  uint32_t all_servers;   // 1: as many as there are
  uint32_t overstriping;  // Lustre: 1 if one server may have several stripes
  uint32_t at_most;       // of a request: 1 to get less where the storage grants less
  uint32_t parts;  // reported: parts with layouts of their own; the above is the first part's
  char pool[256];
} ferry_layout;

#define FERRY_LAYOUT_INIT \
  { sizeof(ferry_layout), 0, 0, 0, -1, 0, 0, 0, 0, "" }

// Tells how a file is striped, as granted; of a directory, what its new files get. -EOPNOTSUPP
// where nothing is striped. Set layout->struct_bytes before the call.
int ferry_layout_get(const char* path, ferry_layout* layout);
// Makes a new, empty file with this layout (-EEXIST if the file exists), or gives it to the new
// files of an existing directory. What the storage does not grant is refused (-EINVAL, and the text
// has its rules) unless `at_most` is set; ferry_layout_get() then tells what was granted.
int ferry_layout_set(const char* path, const ferry_layout* layout);

// Says in lines of text which storage serves a path, how, and why it cannot. Writes at most
// `text_bytes`, the final zero among them, and returns the length of the whole text. `text` may be
// NULL if `text_bytes` is 0. May ask a server.
int64_t ferry_explain(const char* path, char* text, uint64_t text_bytes);

// ---- the runtime --------------------------------------------------------------------------------

// A `cpu` device, with its memory and its I/O server.
typedef struct ferry_runtime ferry_runtime;
// One thread of the device, as its program sees it. Valid until the program returns.
typedef struct ferry_thread ferry_thread;

// Where a read or write of a device program is executed.
enum {
  FERRY_PLACEMENT_HOST = 0,       // by the I/O server, without a cache
  FERRY_PLACEMENT_COMPUTE = 1,    // on the calling core, through the page cache
  FERRY_PLACEMENT_SERVICE = 2,    // on another core, through the page cache
  FERRY_PLACEMENT_AUTOMATIC = 3,  // chosen for each call
};

// How the kernel is called for mounted files.
enum {
  FERRY_ENGINE_AUTOMATIC = 0,  // io_uring if the kernel allows it
  FERRY_ENGINE_IO_URING = 1,   // or an error
  FERRY_ENGINE_THREADS = 2,    // blocking calls
};

// Zero and NULL mean the default.
typedef struct ferry_runtime_options {
  uint64_t struct_bytes;
  uint64_t arena_bytes;  // device memory for programs; 64 MiB
  uint64_t cache_bytes;  // the page cache in device memory; none
  uint32_t page_bytes;   // of the cache: 4 KiB to 2 MiB, a power of two; the profile's, or 64 KiB
  uint32_t placement;    // FERRY_PLACEMENT_...; host
  uint32_t device_threads;   // at most 16384; one per CPU of the device
  uint32_t server_threads;   // at most 4096; the profile's, or one per eight device threads
  uint32_t service_threads;  // cores reserved for placement `service`; none: server threads do it
  uint32_t files_max;        // open at the same time, at most 65536; 1024
  uint32_t engine;           // FERRY_ENGINE_...; automatic
  uint32_t ignore_profile;   // 1: does not use the profile of `ferry tune`
  uint64_t liveness_timeout_ms;  // after which a server thread that hangs counts as dead; 5000
  const char* device_cpus;       // a list like "0-3,8"; all but the server's
  const char* server_cpus;       // the last that the process may use
  const char* storage_path;      // where most files are; selects settings of the profile; "."
} ferry_runtime_options;

#define FERRY_RUNTIME_OPTIONS_INIT \
  { sizeof(ferry_runtime_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

// Counters since the runtime was made.
typedef struct ferry_runtime_statistics {
  uint64_t struct_bytes;
  uint64_t calls;             // requests of device programs to the I/O server
  uint64_t staged_calls;      // of these, with a buffer outside device memory
  uint64_t bytes_read;        // by the server, from files
  uint64_t bytes_written;     // by the server, to files
  uint64_t cache_hits;        // lookups of pages that were there
  uint64_t cache_misses;      // and of those that were not
  uint64_t refused_requests;  // as invalid
} ferry_runtime_statistics;

#define FERRY_RUNTIME_STATISTICS_INIT \
  { sizeof(ferry_runtime_statistics), 0, 0, 0, 0, 0, 0, 0 }

// A device program. It must return, and must neither throw, jump out, nor end its thread.
typedef int (*ferry_program)(ferry_thread* thread, void* user);

// Makes the device and starts its server. `options` may be NULL. -EINVAL for bad
// options, among them a CPU that the process may not use; -ENOMEM; -E2BIG as above.
int ferry_runtime_create(ferry_runtime** runtime, const ferry_runtime_options* options);
// Ends the server after ferry_runtime_shutdown() with ten seconds, and once more so long where that
// does not finish, and frees the device's memory.
// -EIO if data was lost or a file had errors that nobody was told. -EBUSY, and nothing happens,
// while another thread is in a function with this runtime. With other errors than -EBUSY, -EINVAL,
// -EBADF and -ECHILD the handle is gone.
int ferry_runtime_destroy(ferry_runtime* runtime);

// Runs `program(thread, user)` on every device thread, and waits for all of them and for transfers
// that they left in flight. One program runs at a time: a second call waits. Returns 0, or what the
// first thread by index returned that did not return 0. -EDEADLK from within a device program.
int ferry_runtime_run(ferry_runtime* runtime, ferry_program program, void* user);

// Writes back what is dirty, then ends the server: new device calls return -ESHUTDOWN (a
// read may still find its page in the cache), those in flight may finish until the deadline and are
// cancelled then. 0 if nothing is left; -EAGAIN if
// data could not be written yet (the text names the files) and another call can try again; -EIO if
// it ended with errors. Programs may be running.
int ferry_runtime_shutdown(ferry_runtime* runtime, uint64_t deadline_ms);

// Device memory: device calls move data straight to and from it. `alignment_bytes` is a power of
// two, or 0 for 4096. It ends with the runtime, or when it is freed.
int ferry_runtime_allocate(ferry_runtime* runtime, void** memory, uint64_t bytes,
                           uint64_t alignment_bytes);
// -EINVAL for what this runtime has not allocated, or has freed.
int ferry_runtime_free(ferry_runtime* runtime, void* memory);

// The number of device threads.
int64_t ferry_runtime_threads(ferry_runtime* runtime);
int ferry_runtime_get_statistics(ferry_runtime* runtime, ferry_runtime_statistics* statistics);

// ---- calls of device programs -------------------------------------------------------------------

// These return bytes, 0, or a negative errno, as POSIX's functions of these names do, and set no
// text. They belong to the thread that runs the program: another one gets -EPERM, as does a child
// of fork(); NULL gives -EINVAL.
// Files are numbers of this device, from 1 up; all its threads may use them. Any call may return
// -EIO (the server died) or -ESHUTDOWN. Buffers may be anywhere; those outside device memory are
// slower.

// One piece of a vectored call.
typedef struct ferry_vector {
  void* base;
  uint64_t bytes;
} ferry_vector;

// Attributes of a file.
typedef struct ferry_device_status {
  uint64_t size_bytes;
  uint64_t allocated_bytes;
  uint64_t inode;
  uint64_t device;
  int64_t modified_ns;  // since 1970
  uint32_t mode;        // type and permission bits, as in struct stat
  uint32_t links;
  uint32_t owner;
  uint32_t group;
  uint32_t block_bytes;  // preferred transfer size
  uint32_t generated;    // 1: generated while it is read, as in /proc; the size is meaningless
  uint64_t version;      // equal versions of one file have equal contents; 0: unknown
  uint64_t reserved[3];
} ferry_device_status;

// A transfer in flight, of the thread that started it. Its buffer belongs to Ferry until
// ferry_device_wait() returns. Another thread's, or one of which a copy was waited for, is -EINVAL.
typedef struct ferry_pending {
  uint64_t opaque[8];
} ferry_pending;

// The thread's index, from 0 up, and how many there are.
int64_t ferry_device_index(const ferry_thread* thread);
int64_t ferry_device_count(const ferry_thread* thread);
// Sets where this thread's reads and writes run until the program ends: FERRY_PLACEMENT_...
int ferry_device_use(ferry_thread* thread, uint32_t placement);

// Flags of open(2): O_RDONLY, O_CREAT, O_APPEND, O_DIRECT, ...
int ferry_device_open(ferry_thread* thread, const char* path, int flags, uint32_t mode);
// Writes back dirty data, then closes. Reports what writing back did not report yet.
int ferry_device_close(ferry_thread* thread, int file);

int64_t ferry_device_pread(ferry_thread* thread, int file, void* buffer, uint64_t bytes,
                           int64_t offset_bytes);
int64_t ferry_device_pwrite(ferry_thread* thread, int file, const void* buffer, uint64_t bytes,
                            int64_t offset_bytes);
// At the file's position, which all threads share.
int64_t ferry_device_read(ferry_thread* thread, int file, void* buffer, uint64_t bytes);
int64_t ferry_device_write(ferry_thread* thread, int file, const void* buffer, uint64_t bytes);
// At most 1024 pieces.
int64_t ferry_device_preadv(ferry_thread* thread, int file, const ferry_vector* pieces, int count,
                            int64_t offset_bytes);
int64_t ferry_device_pwritev(ferry_thread* thread, int file, const ferry_vector* pieces, int count,
                             int64_t offset_bytes);

// Start a transfer and return 0, or -EAGAIN with too many in flight (more than 63). Buffers outside
// device memory are transferred before the call returns.
int ferry_device_pread_async(ferry_thread* thread, int file, void* buffer, uint64_t bytes,
                             int64_t offset_bytes, ferry_pending* pending);
int ferry_device_pwrite_async(ferry_thread* thread, int file, const void* buffer, uint64_t bytes,
                              int64_t offset_bytes, ferry_pending* pending);
// Waits; returns the transfer's bytes or negative errno.
int64_t ferry_device_wait(ferry_thread* thread, ferry_pending* pending);
// 1 if ferry_device_wait() would not wait, else 0.
int ferry_device_ready(ferry_thread* thread, const ferry_pending* pending);
// The index of one of `count` transfers (at most 64) that is ready, after waiting for it.
int64_t ferry_device_wait_any(ferry_thread* thread, const ferry_pending* pending, uint32_t count);

// Writes dirty pages back, without asking for durability.
int ferry_device_flush(ferry_thread* thread, int file);
// Makes data durable, with all metadata or only what is needed to read it.
int ferry_device_fsync(ferry_thread* thread, int file);
int ferry_device_fdatasync(ferry_thread* thread, int file);
int ferry_device_ftruncate(ferry_thread* thread, int file, int64_t size_bytes);
int ferry_device_stat(ferry_thread* thread, const char* path, ferry_device_status* status);
int ferry_device_fstat(ferry_thread* thread, int file, ferry_device_status* status);
int ferry_device_unlink(ferry_thread* thread, const char* path);

// Advice for the page cache; without one it does nothing. The first requests a range, the second
// writes the file's pages back and drops them.
int ferry_device_prefetch(ferry_thread* thread, int file, int64_t offset_bytes, uint64_t bytes);
int ferry_device_evict(ferry_thread* thread, int file);

#ifdef __cplusplus
}
#endif
// NOLINTEND(modernize-use-using,readability-identifier-naming)

#endif  // FERRY_H
