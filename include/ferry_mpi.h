// Collective I/O in C: many MPI ranks share one file, through a few writing ranks. Compile with the
// MPI library that Ferry was built with: `mpicc $(pkg-config --cflags --libs ferry-mpi)`. C11; also
// valid C++.
//
//   ferry_mpi_file* file;
//   ferry_mpi_map* view;
//   ferry_mpi_map_subarray(&view, 3, sizes, subsizes, starts, sizeof(double));
//   if (ferry_mpi_open(&file, MPI_COMM_WORLD, "/data/field", O_CREAT | O_RDWR, 0644, MPI_INFO_NULL,
//                      NULL) < 0 ||
//       ferry_mpi_set_view(file, 0, view, FERRY_MPI_ORDER_NATIVE, 1) < 0 ||
//       ferry_mpi_write_all(file, mine, sizeof mine) < 0) {
//     fprintf(stderr, "%s\n", ferry_mpi_error_text());  // the same error on every rank
//   }
//
// Collective functions are marked so: all ranks of the communicator call them, in the same order; a
// rank without data passes 0 bytes. A rank that makes no call blocks the others.
//
// Errors. A function that returns `int` or `int64_t` returns a negative errno on failure; what it
// returns otherwise stands beside it. ferry_mpi_error_text() then has one line that says more. A
// collective function fails on all ranks or on none, with the same errno; the text names the rank
// that failed. That holds for arguments that one rank alone gets wrong, too, with one exception: an
// invalid ferry_mpi_file, or communicator, is that rank's error alone, and the others wait for it.
// If ranks make different calls on a file, that call and all later collective calls of the file are
// -EPROTO, and the text names both calls. Errors that the MPI library reports itself (a lost
// process) end the job, which is MPI's default. Otherwise no function ends the process, throws, or
// installs a signal handler. Before MPI is initialised and after it is finalised, whatever needs
// MPI is -EINVAL.
//
// Handles. ferry_mpi_file, ferry_mpi_map and ferry_mpi_transfer are handles, not memory. NULL gives
// -EINVAL, a handle that was closed or freed -EBADF. A function that makes a handle sets it to NULL
// when it fails. Do not check for that between collective calls: pass the NULL on, and the next
// collective call fails on all ranks.
//
// Threads. Use a ferry_mpi_file on the thread that opened it, between MPI's initialisation and
// finalisation. Maps may be used by all threads. Where MPI was initialised with
// MPI_THREAD_MULTIPLE, and `progress_thread` is not off, any thread may wait for a
// ferry_mpi_transfer, else the one that opened the file. A transfer belongs to one thread at a
// time.
//
// Structures that may grow begin with `struct_bytes`, as in ferry.h. Units end the names: _bytes,
// _ns.
#ifndef FERRY_MPI_H
#define FERRY_MPI_H

#include <mpi.h>
#include <stdint.h>

// NOLINTBEGIN(modernize-use-using,readability-identifier-naming): names in C
#ifdef __cplusplus
extern "C" {
#endif

// One line on the last failure of a function of this header on this thread, "" if there was none.
// It stays as it is until the next failure on this thread.
const char* ferry_mpi_error_text(void);

// ---- type maps ----------------------------------------------------------------------------------

// The positions of a stream's bytes in a file (a view) or in memory: a list of extents that
// repeats. The term is MPI's. These functions are not collective. -EINVAL for sizes that are
// negative, too large or inconsistent.
typedef struct ferry_mpi_map ferry_mpi_map;

// One piece of a list.
typedef struct ferry_mpi_extent {
  int64_t offset_bytes;
  int64_t bytes;
} ferry_mpi_extent;

// `bytes` bytes in a row; as a view, with 1 or any other number, all bytes of the file.
int ferry_mpi_map_contiguous(ferry_mpi_map** map, int64_t bytes);
// `count` blocks, `stride_bytes` apart from start to start. A gap also follows the last.
int ferry_mpi_map_strided(ferry_mpi_map** map, int64_t count, int64_t block_bytes,
                          int64_t stride_bytes);
// The block of `subsizes` elements at `starts`, from 0, in an array of `sizes`, of `dimensions`
// numbers each, in C order: the last dimension is contiguous. At most 64 dimensions.
int ferry_mpi_map_subarray(ferry_mpi_map** map, uint32_t dimensions, const int64_t* sizes,
                           const int64_t* subsizes, const int64_t* starts, int64_t element_bytes);
// Any list. A view's extents ascend without overlap. `period_bytes`: after which it repeats;
// negative: up to the end of the extent that reaches furthest.
int ferry_mpi_map_list(ferry_mpi_map** map, const ferry_mpi_extent* extents, uint64_t count,
                       int64_t period_bytes);
// An MPI datatype, which need not be committed. -ENOTSUP for one made by a constructor that MPI 4
// does not have, or with a negative extent.
int ferry_mpi_map_datatype(ferry_mpi_map** map, MPI_Datatype datatype);
// Frees the map. Views and transfers in flight do not need it any more.
int ferry_mpi_map_free(ferry_mpi_map* map);

// ---- files --------------------------------------------------------------------------------------

typedef struct ferry_mpi_file ferry_mpi_file;

// How a collective call moves data.
enum {
  FERRY_MPI_METHOD_AUTOMATIC = 0,    // independent or aggregate
  FERRY_MPI_METHOD_INDEPENDENT = 1,  // each rank for itself
  FERRY_MPI_METHOD_SERIAL = 2,       // each writer takes its ranks' data, one after another
  FERRY_MPI_METHOD_AGGREGATE = 3,    // two-phase: each writer has one part of the file
  FERRY_MPI_METHOD_MPIIO = 4,        // the MPI library's MPI-IO
};

// Settings that can be switched. Where there is nothing to choose from, AUTOMATIC is refused.
enum {
  FERRY_MPI_DEFAULT = 0,
  FERRY_MPI_ON = 1,
  FERRY_MPI_OFF = 2,
  FERRY_MPI_AUTOMATIC = 3,
};

// Rank 0's values count, but for `progress_thread` and `writes_first`. Zero means the default.
// Hints of MPI_Info come first; docs/reference/hints.md explains both.
typedef struct ferry_mpi_options {
  uint64_t struct_bytes;
  uint64_t buffer_bytes;     // of a writer, at most 1 GiB (cb_buffer_size)
  uint64_t alignment_bytes;  // stripe size of a new file (striping_unit)
  uint32_t stripe_count;     // of a new file (striping_factor)
  uint32_t write_method;     // FERRY_MPI_METHOD_...
  uint32_t read_method;
  uint32_t writers;          // number of ranks that access the file for all (cb_nodes)
  uint32_t files;            // a file for each of so many groups of neighbours: PATH.0, PATH.1, ...
  uint32_t write_out;        // the medium begins with large writes at once; on
  uint32_t read_sieving;     // data sieving (romio_ds_read); automatic
  uint32_t write_sieving;    // (romio_ds_write); automatic
  uint32_t node_merge;       // combines a node's data before it goes to another node; on
  uint32_t progress_thread;  // a thread executes nonblocking transfers if MPI allows it; on
  uint32_t writes_first;     // contiguous data is written before the ranks meet; off
  uint32_t quiet;            // 1: rank 0 does not report bad hints on stderr
} ferry_mpi_options;

#define FERRY_MPI_OPTIONS_INIT \
  { sizeof(ferry_mpi_options), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

// The byte order of a file's elements; memory has this machine's.
enum {
  FERRY_MPI_ORDER_NATIVE = 0,
  FERRY_MPI_ORDER_LITTLE = 1,
  FERRY_MPI_ORDER_BIG = 2,
};

// Collective. Opens a file by its path or URI; all ranks pass the same. `flags` and `mode` as for
// open(2), without O_APPEND (-EINVAL). Rank 0 opens or creates it, then the other writers do.
// `hints` may be MPI_INFO_NULL, and `options` NULL. Bad arguments of any rank are -EINVAL.
int ferry_mpi_open(ferry_mpi_file** file, MPI_Comm communicator, const char* path, int flags,
                   uint32_t mode, MPI_Info hints, const ferry_mpi_options* options);

// Collective. Waits for nonblocking transfers, then closes. Reports the first error of any rank,
// also of transfers that nobody waited for. The handle is gone in any case.
int ferry_mpi_close(ferry_mpi_file* file);

// Collective; views may differ between ranks. Offsets now count the bytes of the view from
// `displacement_bytes` on, and the position is 0. -EINVAL on all ranks if any view is invalid.
// `byte_order` (FERRY_MPI_ORDER_...) and `element_bytes` (1, 2, 4, 8 or 16) must be the same on
// every rank. Where the order is not this machine's, data is converted, in whole elements.
int ferry_mpi_set_view(ferry_mpi_file* file, int64_t displacement_bytes, const ferry_mpi_map* view,
                       uint32_t byte_order, uint32_t element_bytes);

// Collective. Transfer this rank's `bytes`, and return the bytes transferred: fewer than asked for
// only when reading at the end of the file. `data` is memory of the host or of one GPU; ranks may
// differ. The _at_ functions start at an offset, the others at this rank's position, which they
// move. -EBADF if the file is not open for this.
int64_t ferry_mpi_write_at_all(ferry_mpi_file* file, int64_t offset_bytes, const void* data,
                               uint64_t bytes);
int64_t ferry_mpi_read_at_all(ferry_mpi_file* file, int64_t offset_bytes, void* data,
                              uint64_t bytes);
int64_t ferry_mpi_write_all(ferry_mpi_file* file, const void* data, uint64_t bytes);
int64_t ferry_mpi_read_all(ferry_mpi_file* file, void* data, uint64_t bytes);
// The same with memory that is not contiguous: `count` periods of a map with its origin at `base`.
int64_t ferry_mpi_write_mapped_at_all(ferry_mpi_file* file, int64_t offset_bytes, const void* base,
                                      const ferry_mpi_map* memory, uint64_t count);
int64_t ferry_mpi_read_mapped_at_all(ferry_mpi_file* file, int64_t offset_bytes, void* base,
                                     const ferry_mpi_map* memory, uint64_t count);

// Transfers of this rank alone, through the same view. Not collective.
int64_t ferry_mpi_write_at(ferry_mpi_file* file, int64_t offset_bytes, const void* data,
                           uint64_t bytes);
int64_t ferry_mpi_read_at(ferry_mpi_file* file, int64_t offset_bytes, void* data, uint64_t bytes);

// Collective. Makes durable what any rank wrote before.
int ferry_mpi_sync(ferry_mpi_file* file);
// Collective. Truncates or extends the file.
int ferry_mpi_resize(ferry_mpi_file* file, uint64_t size_bytes);
// Collective. The size of the file.
int64_t ferry_mpi_size(ferry_mpi_file* file);

// ---- nonblocking transfers ----------------------------------------------------------------------

// A nonblocking collective transfer. All ranks start the same ones in the same order, and they run
// one at a time in that order. Its memory must stay valid, and may not be used, until
// ferry_mpi_transfer_wait() or ferry_mpi_transfer_test() says that it is done, or until the next
// blocking collective call of the file. Where MPI was not initialised with MPI_THREAD_MULTIPLE,
// waiting and testing carry it out, and MPI_Finalize what is left, without errors; a file of one
// rank has a thread for that. With MPI_THREAD_MULTIPLE, wait for all transfers before MPI_Finalize:
// MPICH may abort in it otherwise.
typedef struct ferry_mpi_transfer ferry_mpi_transfer;

// Collective. Start a transfer and return 0. Errors, also of arguments, are those of
// ferry_mpi_transfer_wait(). The functions without an offset move the position at once.
int ferry_mpi_iwrite_at_all(ferry_mpi_transfer** transfer, ferry_mpi_file* file,
                            int64_t offset_bytes, const void* data, uint64_t bytes);
int ferry_mpi_iread_at_all(ferry_mpi_transfer** transfer, ferry_mpi_file* file,
                           int64_t offset_bytes, void* data, uint64_t bytes);
int ferry_mpi_iwrite_all(ferry_mpi_transfer** transfer, ferry_mpi_file* file, const void* data,
                         uint64_t bytes);
int ferry_mpi_iread_all(ferry_mpi_transfer** transfer, ferry_mpi_file* file, void* data,
                        uint64_t bytes);
int ferry_mpi_iwrite_mapped_at_all(ferry_mpi_transfer** transfer, ferry_mpi_file* file,
                                   int64_t offset_bytes, const void* base,
                                   const ferry_mpi_map* memory, uint64_t count);
int ferry_mpi_iread_mapped_at_all(ferry_mpi_transfer** transfer, ferry_mpi_file* file,
                                  int64_t offset_bytes, void* base, const ferry_mpi_map* memory,
                                  uint64_t count);

// Waits for the transfer and earlier ones; returns the bytes transferred, or fails like the
// blocking function on every rank. Can be repeated.
int64_t ferry_mpi_transfer_wait(ferry_mpi_transfer* transfer);
// 1 if it is done, so that waiting does not block, else 0.
int ferry_mpi_transfer_test(ferry_mpi_transfer* transfer);
// Frees the transfer, which goes on; its memory is in use until the next blocking collective call
// of the file. Free every transfer.
int ferry_mpi_transfer_free(ferry_mpi_transfer* transfer);

// ---- what was chosen, and where the time went ---------------------------------------------------

// One rank's time by phase, since the file was opened.
typedef struct ferry_mpi_phases {
  int64_t plan_ns;      // agreeing on sizes, senders and receivers
  int64_t exchange_ns;  // waiting for messages
  int64_t pack_ns;      // copying between user memory, messages and file buffers
  int64_t file_io_ns;   // starting I/O and waiting for it
  int64_t sync_ns;      // fsync
  int64_t wait_ns;      // waiting for other ranks at the end of a call
} ferry_mpi_phases;

// The time split, and what all ranks together counted.
typedef struct ferry_mpi_statistics {
  uint64_t struct_bytes;
  ferry_mpi_phases mean;     // over ranks
  ferry_mpi_phases maximum;  // over ranks, for each phase
  uint64_t messages;         // of data and extents, without agreements
  uint64_t message_bytes;    // in them
  uint64_t remote_messages;  // those between nodes
  uint64_t remote_bytes;
  uint64_t shared_bytes;  // passed through memory shared by a node's ranks
  uint64_t storage_requests;
  uint64_t storage_bytes;
  uint64_t storage_opens;
  uint64_t gpu_bytes;     // copied from or to GPU memory
  uint64_t buffer_bytes;  // size of a writer's window
  uint64_t stripe_bytes;  // in a row on one server; 0: unknown
  uint32_t stripe_count;  // number of servers
  uint32_t method;        // FERRY_MPI_METHOD_..., of the last collective transfer
  uint32_t writers;       // ranks that accessed the file in it
  uint32_t reserved;
} ferry_mpi_statistics;

#define FERRY_MPI_STATISTICS_INIT                                                                 \
  {                                                                                               \
    sizeof(ferry_mpi_statistics), {0, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 0}, 0, 0, 0, 0, 0, 0, 0, 0, \
        0, 0, 0, 0, 0, 0, 0                                                                       \
  }

// Collective. Set statistics->struct_bytes before the call.
int ferry_mpi_get_statistics(ferry_mpi_file* file, ferry_mpi_statistics* statistics);
// Collective. The same as one line of JSON, with the reasons for method, writers, buffers and
// stripes. Writes at most `text_bytes`, the final zero among them, and returns the length of the
// whole text. `text` may be NULL if `text_bytes` is 0.
int64_t ferry_mpi_explain(ferry_mpi_file* file, char* text, uint64_t text_bytes);

// The ranks that write in collective transfers. Stores at most `count` and returns how many there
// are. Not collective.
int64_t ferry_mpi_writers(ferry_mpi_file* file, int* ranks, uint64_t count);
// The hints in force. Free them by MPI_Info_free(). Not collective.
int ferry_mpi_get_hints(ferry_mpi_file* file, MPI_Info* hints);
// What is wrong with the hints, one line each; like ferry_mpi_explain(), but not collective.
int64_t ferry_mpi_warnings(ferry_mpi_file* file, char* text, uint64_t text_bytes);

// ---- for bindings -------------------------------------------------------------------------------

// The collective calls of a file.
enum {
  FERRY_MPI_CALL_OPEN = 0,
  FERRY_MPI_CALL_SET_VIEW = 1,
  FERRY_MPI_CALL_READ_ALL = 2,
  FERRY_MPI_CALL_WRITE_ALL = 3,
  FERRY_MPI_CALL_SYNC = 4,
  FERRY_MPI_CALL_RESIZE = 5,
  FERRY_MPI_CALL_SIZE = 6,
  FERRY_MPI_CALL_STATISTICS = 7,
  FERRY_MPI_CALL_CLOSE = 8,
};

// Collective. A rank whose arguments another language does not accept calls this instead of the
// call that the others make, so that they do not wait for it. That call fails on all ranks with
// `error`, a positive errno, and a text with the rank and `why`. A refused close ends the handle,
// as any close does. For an opening, the first function: always -EINVAL. For a nonblocking
// transfer, the last one.
int ferry_mpi_refuse_open(MPI_Comm communicator, const char* path, const char* why);
int ferry_mpi_refuse(ferry_mpi_file* file, uint32_t call, int error, const char* why);
int ferry_mpi_irefuse(ferry_mpi_transfer** transfer, ferry_mpi_file* file, uint32_t call, int error,
                      const char* why);

#ifdef __cplusplus
}
#endif
// NOLINTEND(modernize-use-using,readability-identifier-naming)

#endif  // FERRY_MPI_H
