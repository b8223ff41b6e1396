// Collective I/O: many MPI ranks share one file, through a few writing ranks (libferry_mpi).
//
//   ferry::collective::File file(MPI_COMM_WORLD, "/data/field", O_CREAT | O_RDWR);
//   file.set_view(0, TypeMap::subarray(sizes, subsizes, starts, sizeof(double)));
//   file.write_all(std::as_bytes(std::span(mine)));
//   file.close();
//
// All ranks of the communicator must call functions marked "collective", in the same order; a rank
// without data passes an empty span. A failure on any rank throws on all ranks: ferry::Error with
// the errno and the failing rank. If ranks make different calls on a file, that call and all later
// collective calls of the file throw EPROTO, which names both calls. A rank that makes no call
// blocks the others. A rank without memory for a call fails it on all ranks (ENOMEM); while a file
// is opened and in the middle of an exchange the job ends, as it does on errors that the MPI
// library reports itself (a lost process, exhausted memory).
//
// Use a File on the thread that opened it, between MPI's initialisation and finalisation.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <mpi.h>

#include <ferry/byte_order.hpp>
#include <ferry/error.hpp>
#include <ferry/typemap.hpp>

namespace ferry::storage {
class Storage;
}

namespace ferry::collective {

// How a collective call moves data.
enum class Method : std::uint8_t {
  automatic,    // independent or aggregate, by the rule in docs/reference/hints.md
  independent,  // each rank for itself
  serial,       // each writer takes the data of its group's ranks, one after another
  aggregate,    // two-phase: data is exchanged so that each writer has one part of the file
  mpiio,        // the MPI library's MPI-IO
};
const char* name_of(Method method);

// Data sieving: whether a rank with many small pieces also moves the gaps between them.
enum class Sieving : std::uint8_t { automatic, enabled, disabled };

// Whether the medium begins with large writes at once, so that sync() has less to do. `automatic`:
// where this node's page cache holds the data, from the file's first sync() on. Writing out delays
// a program that writes over the same data and does not sync.
enum class WriteOut : std::uint8_t { automatic, enabled, disabled };

// The collective calls of a File, as errors name them. All reads are `read_all` and all writes
// `write_all`, also at an offset and nonblocking: those match each other.
enum class Call : std::uint8_t {
  open,
  set_view,
  read_all,
  write_all,
  sync,
  resize,
  size_bytes,
  statistics,
  close
};
const char* name_of(Call call);

// One rank's time by phase.
struct Phases {
  double plan_ns = 0;      // agreeing on sizes, senders and receivers
  double exchange_ns = 0;  // waiting for messages
  double pack_ns = 0;      // copying between user memory, messages and file buffers
  double file_io_ns = 0;   // starting I/O and waiting for it
  double sync_ns = 0;      // fsync
  double wait_ns = 0;      // waiting for other ranks at the end of a call
};

// Counters: of all ranks together in Statistics, of one rank in CallCounts.
struct Counts {
  std::uint64_t messages = 0;         // of data and extents, without agreements
  std::uint64_t message_bytes = 0;    // in them
  std::uint64_t remote_messages = 0;  // those between nodes
  std::uint64_t remote_bytes = 0;
  std::uint64_t shared_bytes = 0;  // passed through memory shared by a node's ranks
  std::uint64_t storage_requests = 0;
  std::uint64_t storage_bytes = 0;
  std::uint64_t storage_opens = 0;
  std::uint64_t gpu_bytes = 0;  // copied from or to GPU memory
};

// What this rank counted in one call.
struct CallCounts {
  Call call = Call::open;
  bool is_collective = true;
  bool is_carried_out = false;  // a transfer, without an error
  // Of such a transfer; automatic: no rank had data, so that nothing was done.
  Method method = Method::automatic;
  std::int64_t bytes = 0;  // of this rank
  Phases phases;
  Counts counts;
};

// Rank 0's values count. Zero lets Ferry choose; hints are read only then.
struct Options {
  Method write_method = Method::automatic;
  Method read_method = Method::automatic;
  int writers = 0;                // cb_nodes; 0: see docs/reference/hints.md
  std::int64_t buffer_bytes = 0;  // cb_buffer_size, at most 1 GiB; 0: likewise
  // striping_unit: the stripe size of a new file, or the alignment of domains on storages without
  // stripes. 0: see docs/reference/hints.md.
  std::int64_t alignment_bytes = 0;
  int stripe_count = 0;  // striping_factor of a new file; 0: likewise
  // Number of files: divides the ranks into groups of neighbours, at most one per rank, each with
  // its own file PATH.0, PATH.1 and so on (with leading zeros from ten files; in a URI before the
  // question mark). Views, offsets and sizes are those of a rank's own file, `writers` counts per
  // file, and failures throw on all ranks. 0: one file, PATH.
  int files = 0;
  WriteOut write_out = WriteOut::enabled;  // ferry_write_out
  // romio_ds_read, romio_ds_write: see docs/reference/hints.md, data sieving.
  Sieving read_sieving = Sieving::automatic;
  Sieving write_sieving = Sieving::automatic;
  // ferry_node_merge: combine a node's data for a writer on another node before sending it.
  bool node_merge = true;
  // On each rank: a thread executes nonblocking transfers if MPI was initialised with
  // MPI_THREAD_MULTIPLE, or if the file is one rank's alone. Otherwise, or if this is false or no
  // thread can be started, waiting for them executes them; starting them does what needs no answer
  // of another rank.
  bool progress_thread = true;
  // On each rank: contiguous data is written to a page cache before the ranks meet, which saves one
  // of two agreements of a call. Without it, a call that another rank refuses or does not make has
  // written nothing.
  bool writes_first = false;
  unsigned mode = 0644;            // of a new file
  MPI_Info hints = MPI_INFO_NULL;  // docs/reference/hints.md lists the known names
  // Hints that count where `hints` has none of that name. Method mpiio does not pass them on.
  std::map<std::string, std::string> default_hints;
  // Rank 0 calls it with one line per unknown or invalid hint. Empty: prints them on stderr.
  std::function<void(const std::string&)> warn;
  // On each rank, at the end of each call but statistics(), by the thread that carries it out. It
  // may not use the file, and must not throw.
  std::function<void(const CallCounts&)> count;
  // On each rank. If not empty: why this rank cannot open the file; see File::refuse().
  std::string refusal;
};

// The byte order of a file's elements; memory has this machine's. MPI's "external32" is
// ByteOrder::big with the element sizes that MPI defines for it.
struct Representation {
  ByteOrder order = ByteOrder::native;
  int element_bytes = 1;  // 1, 2, 4, 8 or 16
};

// How the storage has striped the file over its servers.
struct Stripes {
  std::int64_t stripe_bytes = 0;  // consecutive bytes on one server; 0: unknown
  int stripe_count = 0;           // number of servers
  std::string reason;             // the reason
};

struct Statistics {
  Phases mean;     // over ranks, since the file was opened
  Phases maximum;  // over ranks, for each phase
  Counts counts;
  // Of the last collective transfer:
  Method method = Method::automatic;
  std::string reason;             // why this method
  int writers = 0;                // ranks that read or wrote files
  std::string writers_reason;     // why this many, for methods with writers
  std::int64_t buffer_bytes = 0;  // size of a writer's window
  std::string buffer_reason;
  Stripes stripes;
};

// One line of JSON: method, reason, writers, stripes, counters, and the time split as mean and
// maximum over ranks. Keys are the names above.
std::string to_json(const Statistics& statistics);

class Orders;
struct Order;

// A nonblocking collective transfer, started by the i..._all calls of File. Keep its memory valid
// and untouched until wait() returns or test() returns true, or, if you drop the Transfer, until
// the next blocking collective call of the file, such as close(). If a thread makes progress
// (Options::progress_thread), wait for it and test it on any thread; otherwise on the one that
// opened the file.
class Transfer {
 public:
  Transfer() = default;  // an empty transfer, done
  // Waits for it and for earlier ones of its file; those of other files go on meanwhile. Returns
  // the bytes moved, or throws like the blocking call on every rank; repeatable.
  std::int64_t wait();
  // Whether it is done, so that wait() does not block. If no thread makes progress
  // (Options::progress_thread), executes of this and other files' transfers what does not have to
  // wait for other ranks or a storage. Without memory for that it waits, as wait() does.
  bool test();
  // Has `call` called when it is done: now, or by the thread that completes it. Once for each
  // transfer; `call` may use no file, and must not throw.
  void when_done(std::function<void()> call);

 private:
  friend class File;
  Transfer(std::shared_ptr<Orders> orders, std::shared_ptr<Order> order)
      : orders_(std::move(orders)), order_(std::move(order)) {}
  std::shared_ptr<Orders> orders_;
  std::shared_ptr<Order> order_;
};

class File {
 public:
  // Collective. `path` is a path or a URI such as nfs://server/export/file
  // (docs/reference/storages.md). Rank 0 opens or creates it, then the other writers open it; other
  // ranks open it with their first independent transfer. `flags` as for open(2), without O_APPEND
  // (EINVAL).
  File(MPI_Comm communicator, const std::string& path, int flags, const Options& options = {});
  // The same on the caller's storage, for example one that fails on purpose.
  File(MPI_Comm communicator, const std::string& path, int flags, const Options& options,
       std::shared_ptr<storage::Storage> storage);
  // Collective. Closes and ignores errors; call close() to see them.
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  // Collective; views may differ between ranks. Offsets now count the bytes of the view, and the
  // position is 0. Extents must ascend without overlap, or, if the file is open for reading alone,
  // not descend; copies may interleave. EINVAL on all ranks if any view is invalid.
  // `representation` must be the same on every rank (EINVAL); if it is not this machine's,
  // transfers convert data and take whole elements (EINVAL). An element that the file holds only in
  // part has undefined contents.
  void set_view(std::int64_t displacement, const TypeMap& view,
                const Representation& representation = {});

  // Collective transfers. Memory is a span, or `count` periods of a type map with its origin at
  // `base`. A rank's memory is either the host's, including arenas of the `cpu` device, or one
  // GPU's (primary context; else ENOTSUP); ranks may differ. Return the bytes moved by this rank,
  // fewer than asked for only at the end of the file. _all calls without an offset start at this
  // rank's position and move it.
  std::int64_t write_at_all(std::int64_t offset, std::span<const std::byte> data);
  std::int64_t write_at_all(std::int64_t offset, const void* base, const TypeMap& memory,
                            std::int64_t count);
  std::int64_t read_at_all(std::int64_t offset, std::span<std::byte> data);
  std::int64_t read_at_all(std::int64_t offset, void* base, const TypeMap& memory,
                           std::int64_t count);
  std::int64_t write_all(std::span<const std::byte> data);
  std::int64_t read_all(std::span<std::byte> data);

  // Nonblocking collective transfers: all ranks start the same ones in the same order, and they run
  // one at a time in that order. Transfer::wait() throws all errors, also those of arguments;
  // close() does if you never wait. Calls without an offset move the position immediately, by the
  // amount requested. Any other call on the file completes them first; so does MPI_Finalize,
  // without errors, unless the MPI library breaks off while a thread of ours makes progress
  // (docs/guide/mpi.md).
  Transfer iwrite_at_all(std::int64_t offset, std::span<const std::byte> data);
  Transfer iwrite_at_all(std::int64_t offset, const void* base, const TypeMap& memory,
                         std::int64_t count);
  Transfer iread_at_all(std::int64_t offset, std::span<std::byte> data);
  Transfer iread_at_all(std::int64_t offset, void* base, const TypeMap& memory, std::int64_t count);
  Transfer iwrite_all(std::span<const std::byte> data);
  Transfer iread_all(std::span<std::byte> data);

  // Transfers of this rank only, through the same view.
  std::int64_t write_at(std::int64_t offset, std::span<const std::byte> data);
  std::int64_t read_at(std::int64_t offset, std::span<std::byte> data);

  // Collective. Makes everything that any rank wrote before durable.
  void sync();
  // Collective. Truncates or extends the file.
  void resize(std::int64_t size_bytes);
  // Collective.
  std::int64_t size_bytes();
  // Collective. Throws the first error of any rank, also if only closing failed.
  void close();

  // Collective.
  Statistics statistics();

  // For bindings: a rank whose arguments have a wrong type calls this instead of `call`, so that
  // the others do not wait for it. Throws on every rank: `error`, with the rank and `why` in the
  // text. With an error of 0 on all ranks it only has them meet.
  void refuse(Call call, const std::string& why, int error = EINVAL);
  // The same instead of a nonblocking call: the Transfer of each rank throws the error.
  Transfer irefuse(Call call, const std::string& why, int error = EINVAL);

  // The hints in force. The caller frees it with MPI_Info_free.
  MPI_Info hints() const;
  // Problems with the hints, on every rank.
  const std::vector<std::string>& warnings() const;
  // The ranks that write in collective transfers (aggregators).
  const std::vector<int>& writers() const;
  // As the storage reports it; the same on every rank of a file.
  const Stripes& stripes() const;
  // This rank's file: the constructor's `path`, or its part with Options::files.
  const std::string& path() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Converts an MPI datatype, which need not be committed, for views and memory. Throws ferry::Error
// (ENOTSUP) for one made by a constructor that MPI 4 does not have, or with a negative extent.
TypeMap typemap_of(MPI_Datatype datatype);

}  // namespace ferry::collective
