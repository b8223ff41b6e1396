// One shared file, many MPI ranks, written and read through a chosen subset of them (libferry_mpi).
//
//   ferry::collective::File file(MPI_COMM_WORLD, "/data/field", O_CREAT | O_RDWR);
//   file.set_view(0, TypeMap::subarray(sizes, subsizes, starts, sizeof(double)));
//   file.write_all(std::as_bytes(std::span(mine)));
//   file.close();
//
// Functions marked "collective" must be called by all ranks of the communicator, in the same order;
// a rank with nothing to contribute passes an empty span. What fails on any rank is thrown on every
// rank: ferry::Error with the errno and the rank where it happened. What the MPI library itself
// reports (a lost process, exhausted memory) ends the job, as MPI does by default.
//
// A File is used by the thread that opened it. MPI must be initialised before, and finalised after.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
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
  automatic,    // one of independent and aggregate, by the rule that docs/collective.md states
  independent,  // each rank its own
  serial,       // each writer takes the data of its group of ranks, one after the other
  aggregate,    // data is exchanged so that each writer has one part of the file (two-phase)
  mpiio,        // the MPI library's own MPI-IO
};
const char* name_of(Method method);

// Rank 0's count. Zero leaves the choice to Ferry; hints are looked at only there.
struct Options {
  Method write_method = Method::automatic;
  Method read_method = Method::automatic;
  int writers = 0;                   // cb_nodes; 0: as docs/collective.md states
  std::int64_t buffer_bytes = 0;     // cb_buffer_size; 0: 4 MiB on one node, else 16. At most 1 GiB
  std::int64_t alignment_bytes = 0;  // striping_unit; 0: the file system's block size
  // ferry_write_out: the medium begins with large writes at once, so that a sync() finds less to
  // do.
  bool write_out = true;
  unsigned mode = 0644;            // of a file that is created
  MPI_Info hints = MPI_INFO_NULL;  // known names are listed in docs/collective.md
  // Called on rank 0 with one line for each hint that is unknown or makes no sense. Empty: the
  // lines go to standard error.
  std::function<void(const std::string&)> warn;
};

// How the elements of a file lie in it; in memory they are this machine's. MPI's "external32" is
// ByteOrder::big, with elements of the sizes that MPI gives them there.
struct Representation {
  ByteOrder order = ByteOrder::native;
  int element_bytes = 1;  // 1, 2, 4, 8 or 16
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
  std::uint64_t messages = 0;       // of data and extents; agreements are not counted
  std::uint64_t message_bytes = 0;  // in them
  std::uint64_t shared_bytes = 0;   // handed over in memory that ranks of a node share
  std::uint64_t storage_requests = 0;
  std::uint64_t storage_bytes = 0;
  std::uint64_t storage_opens = 0;
};

struct Statistics {
  Phases mean;     // over ranks, since the file was opened
  Phases maximum;  // over ranks, each phase by itself
  Counts counts;
  // Of the last collective transfer:
  Method method = Method::automatic;
  std::string reason;  // why this method
  int writers = 0;     // ranks that read or wrote the file
};

class File {
 public:
  // Collective. `path` is that of a file, or a URI such as nfs://server/export/file
  // (docs/storages.md). Rank 0 opens or creates it, then the other writers open it; other ranks
  // hold no handle before their first independent transfer. `flags` as for open(2); O_APPEND is
  // refused with EINVAL.
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
  // `base`. Return the bytes moved by this rank: fewer than asked for only where a read meets the
  // end of the file. The _all calls without an offset start at this rank's position and move it.
  std::int64_t write_at_all(std::int64_t offset, std::span<const std::byte> data);
  std::int64_t write_at_all(std::int64_t offset, const void* base, const TypeMap& memory,
                            std::int64_t count);
  std::int64_t read_at_all(std::int64_t offset, std::span<std::byte> data);
  std::int64_t read_at_all(std::int64_t offset, void* base, const TypeMap& memory,
                           std::int64_t count);
  std::int64_t write_all(std::span<const std::byte> data);
  std::int64_t read_all(std::span<std::byte> data);

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
  // The hints in force. The caller frees it with MPI_Info_free.
  MPI_Info hints() const;
  // What was wrong with the hints, on every rank.
  const std::vector<std::string>& warnings() const;
  // Ranks that write in collective transfers.
  const std::vector<int>& writers() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// The type map of an MPI datatype, for views and for memory. ferry::Error (ENOTSUP) for datatypes
// of Fortran's parameterised kinds. The datatype need not be committed.
TypeMap typemap_of(MPI_Datatype datatype);

}  // namespace ferry::collective
