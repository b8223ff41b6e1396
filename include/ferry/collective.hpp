// One shared file, many MPI ranks, written and read through a chosen subset of them (libferry_mpi).
//
//   ferry::collective::File file(MPI_COMM_WORLD, "/data/field", O_CREAT | O_RDWR);
//   file.set_view(0, TypeMap::subarray(sizes, subsizes, starts, sizeof(double)));
//   file.write_all(std::as_bytes(std::span(mine)));
//   file.close();
//
// Functions marked "collective" must be called by all ranks of the communicator, in the same order;
// a rank with nothing to contribute passes an empty span. What fails on any rank is thrown on every
// rank: ferry::Error with the errno and the rank where it happened. Ranks that are in different
// calls of a file get EPROTO, which names both calls; so does every later collective call of that
// file, as its ranks can agree on nothing any more. A rank that makes no call is waited for without
// a bound. What the MPI library itself reports (a lost process, exhausted memory) ends the job, as
// MPI does by default.
//
// A File is used by the thread that opened it. MPI must be initialised before, and finalised after.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
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

// How a collective call moves its data.
enum class Method : std::uint8_t {
  automatic,    // one of independent and aggregate, by the rule that docs/reference/hints.md states
  independent,  // each rank its own
  serial,       // each writer takes the data of its group of ranks, one after the other
  aggregate,    // data is exchanged so that each writer has one part of the file (two-phase)
  mpiio,        // the MPI library's own MPI-IO
};
const char* name_of(Method method);

// Whether a rank that moves many small pieces on its own moves what lies between them, too.
enum class Sieving : std::uint8_t { automatic, enabled, disabled };

// The collective calls of a File, as errors name them. A read is `read_all` and a write
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

// Rank 0's count. Zero leaves the choice to Ferry; hints are looked at only there.
struct Options {
  Method write_method = Method::automatic;
  Method read_method = Method::automatic;
  int writers = 0;                // cb_nodes; 0: as docs/reference/hints.md states
  std::int64_t buffer_bytes = 0;  // cb_buffer_size; 0: likewise. At most 1 GiB
  // striping_unit: the stripe size that a new file asks for where its storage has stripes, and the
  // alignment of domains where it has none. 0: as docs/reference/hints.md states.
  std::int64_t alignment_bytes = 0;
  int stripe_count = 0;  // striping_factor, that a new file asks for; 0: likewise
  // Of files to make of it: the ranks are divided into so many groups of neighbours, at most one
  // for each rank, and each group has a file of its own, PATH.0, PATH.1 and so on (with leading
  // zeros where there are ten or more; in a URI before the question mark). Views, offsets and sizes
  // are those of a rank's own file, and `writers` is for each; what fails on one is thrown on all
  // ranks. 0: one file, PATH.
  int files = 0;
  // ferry_write_out: the medium begins with large writes at once, so that a sync() finds less to
  // do.
  bool write_out = true;
  // romio_ds_read, romio_ds_write: see docs/reference/hints.md, data sieving.
  Sieving read_sieving = Sieving::automatic;
  Sieving write_sieving = Sieving::automatic;
  // ferry_node_merge: what the ranks of a node have for a writer of another node is put together
  // before it crosses the wire.
  bool node_merge = true;
  // Nonblocking transfers are carried out by a thread, where MPI was initialised with
  // MPI_THREAD_MULTIPLE. Otherwise, or if this is false, by whoever waits for them. Of each rank.
  bool progress_thread = true;
  unsigned mode = 0644;            // of a file that is created
  MPI_Info hints = MPI_INFO_NULL;  // known names are listed in docs/reference/hints.md
  // Called on rank 0 with one line for each hint that is unknown or makes no sense. Empty: the
  // lines go to standard error.
  std::function<void(const std::string&)> warn;
  // Of each rank. Not empty: why this rank cannot open the file, as File::refuse() says it.
  std::string refusal;
};

// How the elements of a file lie in it; in memory they are this machine's. MPI's "external32" is
// ByteOrder::big, with elements of the sizes that MPI gives them there.
struct Representation {
  ByteOrder order = ByteOrder::native;
  int element_bytes = 1;  // 1, 2, 4, 8 or 16
};

// How the file lies over the servers of its storage, as that granted it.
struct Stripes {
  std::int64_t stripe_bytes = 0;  // in a row on one server; 0: the storage tells no stripes
  int stripe_count = 0;           // over so many servers
  std::string reason;             // why these
};

// Where the time of one rank went.
struct Phases {
  double plan_ns = 0;      // agreeing on sizes and on who sends what
  double exchange_ns = 0;  // waiting for messages
  double pack_ns = 0;      // copying between user memory, messages and file buffers
  double file_io_ns = 0;   // starting reads and writes and waiting for them
  double sync_ns = 0;      // fsync
  double wait_ns = 0;      // for the other ranks at the end of a call
};

// Of all ranks together, since the file was opened.
struct Counts {
  std::uint64_t messages = 0;         // of data and extents; agreements are not counted
  std::uint64_t message_bytes = 0;    // in them
  std::uint64_t remote_messages = 0;  // those of them that crossed between nodes
  std::uint64_t remote_bytes = 0;
  std::uint64_t shared_bytes = 0;  // handed over in memory that ranks of a node share
  std::uint64_t storage_requests = 0;
  std::uint64_t storage_bytes = 0;
  std::uint64_t storage_opens = 0;
  std::uint64_t gpu_bytes = 0;  // copied from or to memory of GPUs
};

struct Statistics {
  Phases mean;     // over ranks, since the file was opened
  Phases maximum;  // over ranks, each phase by itself
  Counts counts;
  // Of the last collective transfer:
  Method method = Method::automatic;
  std::string reason;             // why this method
  int writers = 0;                // ranks that read or wrote the file, or the files
  std::string writers_reason;     // why so many, where the method has writers
  std::int64_t buffer_bytes = 0;  // of a writer's window
  std::string buffer_reason;
  Stripes stripes;
};

// As one JSON object on one line: method, reason, writers, stripes, counts, and the time split as
// mean and maximum over ranks. Keys are the names above.
std::string to_json(const Statistics& statistics);

class Orders;
struct Order;

// A nonblocking collective transfer: what the i..._all calls of File start. Its memory must stay,
// and not be touched, until wait() has returned or test() has said true; also where a Transfer is
// dropped: then until the next blocking collective call of the file, such as close(). By the thread
// that opened the file.
class Transfer {
 public:
  Transfer() = default;  // of nothing, done
  // Waits for it and those started before. Returns the bytes moved, or throws as the blocking call
  // would on every rank; again and again.
  std::int64_t wait();
  // Whether it is done; wait() returns at once then. Does not wait where a thread makes progress
  // (Options::progress_thread), else carries the transfer out, as wait() does.
  bool test();

 private:
  friend class File;
  Transfer(std::shared_ptr<Orders> orders, std::shared_ptr<Order> order)
      : orders_(std::move(orders)), order_(std::move(order)) {}
  std::shared_ptr<Orders> orders_;
  std::shared_ptr<Order> order_;
};

class File {
 public:
  // Collective. `path` is that of a file, or a URI such as nfs://server/export/file
  // (docs/reference/storages.md). Rank 0 opens or creates it, then the other writers open it; other
  // ranks hold no handle before their first independent transfer. `flags` as for open(2); O_APPEND
  // is refused with EINVAL.
  File(MPI_Comm communicator, const std::string& path, int flags, const Options& options = {});
  // The same on a storage of the caller's, such as one that a test makes fail.
  File(MPI_Comm communicator, const std::string& path, int flags, const Options& options,
       std::shared_ptr<storage::Storage> storage);
  // Collective. Closes without telling errors; call close() to know them.
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  // Collective; each rank may have another view. From now on offsets count the bytes that the view
  // shows, and the position is 0. EINVAL on all ranks if any view may not be one.
  // `representation` must be the same on every rank (EINVAL); where it is not this machine's own,
  // offsets and sizes of transfers are whole elements, else EINVAL, and data is converted on the
  // way. An element whose end is missing in the file has undefined contents.
  void set_view(std::int64_t displacement, const TypeMap& view,
                const Representation& representation = {});

  // Collective transfers. Memory is a span, or `count` periods of a type map with its origin at
  // `base`; all of a rank's is the host's, arenas of the `cpu` device among it, or one GPU's
  // (primary context; else ENOTSUP), which some ranks' may be and others' not. Return the bytes
  // moved by this rank: fewer than asked for only where a read meets the end of the file. The _all
  // calls without an offset start at this rank's position and move it.
  std::int64_t write_at_all(std::int64_t offset, std::span<const std::byte> data);
  std::int64_t write_at_all(std::int64_t offset, const void* base, const TypeMap& memory,
                            std::int64_t count);
  std::int64_t read_at_all(std::int64_t offset, std::span<std::byte> data);
  std::int64_t read_at_all(std::int64_t offset, void* base, const TypeMap& memory,
                           std::int64_t count);
  std::int64_t write_all(std::span<const std::byte> data);
  std::int64_t read_all(std::span<std::byte> data);

  // Nonblocking collective transfers: every rank starts the same ones in the same order, and they
  // are carried out in that order, one at a time. Errors, also of arguments, are thrown by
  // Transfer::wait(), and by close() if nobody has waited. Calls without an offset move the
  // position at once, by what was asked for. Any other call on the file ends them first.
  Transfer iwrite_at_all(std::int64_t offset, std::span<const std::byte> data);
  Transfer iwrite_at_all(std::int64_t offset, const void* base, const TypeMap& memory,
                         std::int64_t count);
  Transfer iread_at_all(std::int64_t offset, std::span<std::byte> data);
  Transfer iread_at_all(std::int64_t offset, void* base, const TypeMap& memory, std::int64_t count);
  Transfer iwrite_all(std::span<const std::byte> data);
  Transfer iread_all(std::span<std::byte> data);

  // Transfers of this rank alone, through the same view.
  std::int64_t write_at(std::int64_t offset, std::span<const std::byte> data);
  std::int64_t read_at(std::int64_t offset, std::span<std::byte> data);

  // Collective. Whatever any rank has written before is durable when it returns.
  void sync();
  // Collective. Cuts or extends the file.
  void resize(std::int64_t size_bytes);
  // Collective.
  std::int64_t size_bytes();
  // Collective. The first error of any rank, if only that closing failed.
  void close();

  // Collective.
  Statistics statistics();

  // For bindings, where arguments may be of a wrong type on one rank: what this rank calls instead
  // of `call`, so that the others do not wait for it. Fails on every rank: EINVAL, with the rank
  // and `why` in the text.
  void refuse(Call call, const std::string& why);
  // The same instead of a nonblocking call; the error is that of the other ranks' Transfer.
  void irefuse(Call call, const std::string& why);

  // The hints in force. The caller frees it with MPI_Info_free.
  MPI_Info hints() const;
  // What was wrong with the hints, on every rank.
  const std::vector<std::string>& warnings() const;
  // Ranks that write in collective transfers.
  const std::vector<int>& writers() const;
  // As read back from the storage, the same on every rank of the file.
  const Stripes& stripes() const;
  // Of this rank's file: `path` of the constructor, or with Options::files its part of it.
  const std::string& path() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// The type map of an MPI datatype, for views and for memory. ferry::Error (ENOTSUP) for datatypes
// of Fortran's parameterised kinds. The datatype need not be committed.
TypeMap typemap_of(MPI_Datatype datatype);

}  // namespace ferry::collective
