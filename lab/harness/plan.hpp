// The plan: cells to measure, repeats, and the device. JSON, schema "ferry.plan/3".
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <ferry/byte_order.hpp>
#include <ferry/ferry.hpp>

namespace ferry::bench {

enum class Interface : std::uint8_t {
  ferry,   // the device's file calls; of ranks, the file views of libferry_mpi
  posix,   // pread and pwrite
  mmap,    // of threads
  uring,   // likewise
  mpiio,   // of ranks: MPI-IO of the MPI library
  native,  // of ranks: Ferry's storage itself; of ceph:/path, libcephfs
};
enum class MeasuredOperation : std::uint8_t { read, write };
enum class Program : std::uint8_t {
  stream,     // transfers, nothing else
  iterative,  // transfer a piece, compute on it, piece by piece
  once,       // one transfer of everything, then compute piece by piece
  files,      // each transfer in a file of its own: open, transfer, close
  metadata,   // such files are made, looked at, read and removed (harness/metadata.hpp)
};

// What makes the calls: threads of this process, warps of a GPU, or MPI ranks.
enum class Device : std::uint8_t { cpu, cuda, ranks };

// What a rank has of a file: a block, pieces in turn with the others, or a block of a 4-D array of
// doubles, which is cut along its last dimensions first.
enum class RankPattern : std::uint8_t { blocks, interleaved, subarray };

// As collective::Method.
enum class CollectiveMethod : std::uint8_t { automatic, independent, serial, aggregate, mpiio };

// Which part of the data each thread reads: the one that the thread of its number writes, that of
// the next, or one drawn anew for each repeat.
enum class Reorder : std::uint8_t { none, neighbour, random };

// Where the calls of a thread go within its part. The first two go to each place once. The others
// draw a place for each call: some get many, others none.
enum class Offsets : std::uint8_t {
  sequential,
  random,   // in random order
  zipf,     // the k-th most popular place with a weight of 1 / k^exponent; places at random
  hotspot,  // the first places of the part get more calls than the rest
};

// What follows the last transfer, each step timed apart.
enum class Sync : std::uint8_t { none, flush, fsync, flush_and_fsync };

// One point of a study's matrix: a way to move `total_bytes` of one file, or of several
// (harness/layout.hpp).
struct Cell {
  std::string id;
  std::string group;  // cells of one name, side by side in the plan, are jobs that run together
  Interface interface = Interface::ferry;
  device::Placement placement = device::Placement::host;  // of interface ferry
  Program program = Program::stream;
  MeasuredOperation operation = MeasuredOperation::read;
  Offsets offsets = Offsets::sequential;
  double zipf_exponent = 0;
  unsigned hot_file_percent = 0;  // of hotspot: so much of the part ...
  unsigned hot_call_percent = 0;  // ... gets so many of the calls
  std::string path;
  std::uint64_t transfer_bytes = 0;
  std::uint64_t total_bytes = 0;   // moved, by all threads or ranks
  std::uint64_t stride_bytes = 0;  // reads: from one call's place to the next; 0: transfer_bytes
  unsigned threads = 1;            // of the device `ranks`: ranks
  unsigned queue_depth = 1;
  unsigned segments = 1;  // each has a block of every thread
  bool file_per_thread = false;
  bool same_part = false;          // every thread goes over the whole file, behind offset_bytes
  std::uint64_t offset_bytes = 0;  // of each file, where the parts begin
  unsigned open_files = 0;  // reads of a stream: in so many files, open at once; 0: in one file
  Reorder reorder = Reorder::none;   // of reads
  bool barriers = true;              // threads begin opening, moving, syncing and closing together
  std::uint64_t start_delay_ms = 0;  // before it opens its files
  std::uint64_t deadline_ms = 0;     // transfers start no later than this after the first; 0: none
  unsigned passes = 1;               // so often each thread goes over its part
  std::uint64_t time_ms = 0;         // transfers go on for so long, over and over; 0: once
  std::uint64_t ramp_ms = 0;         // of a timed run: not counted, before that
  std::uint64_t rate_bytes_per_s = 0;  // of each thread, at most; 0: as fast as it goes
  std::optional<unsigned> variant;     // of the plan's runtimes; absent: the plan's own
  bool direct = false;
  Sync sync = Sync::none;
  std::uint64_t sync_every_calls = 0;  // a thread syncs behind so many of its writes; 0: not before
  bool cold = false;                   // drop the file's pages from the host's cache first
  bool warm = false;                   // fill the device's cache with the file first
  bool rewrite = false;                // writes: over what the file holds already
  unsigned read_percent = 0;           // of a rewrite: so many of the calls read; 0: it writes
  std::uint64_t buffer_offset_bytes = 0;                  // of the buffer from a page's beginning
  std::optional<device::cache::Switches> cache_switches;  // absent: all on
  bool overwrite = false;    // the file may exist; it is truncated, and not removed afterwards
  bool keep = false;         // leave the file of the last repeat
  bool make = false;         // reads: makes the files, and removes them at the end
  bool empty_files = false;  // of program metadata: files have no bytes, not transfer_bytes
  std::uint64_t seed = 1;    // of the random order and of what is written
  // Reads: the file was written by a stream cell with this pattern_seed. Absent: compared with what
  // a plain pread says.
  std::optional<std::uint64_t> expect_pattern_seed;
  // Another job writes this pattern over that meanwhile: each byte is of one or of the other.
  std::optional<std::uint64_t> meanwhile_pattern_seed;
  // Reads: every transfer is compared while it is timed; without a seed, that of the file is looked
  // for. Writes: read back through their own interface after each repeat.
  bool check = false;
  bool latency = false;  // every call is timed, and the histogram reported

  // Of the device `ranks` alone, which makes the files that it reads.
  RankPattern pattern = RankPattern::blocks;
  std::uint64_t piece_bytes = 4096;                       // interleaved
  CollectiveMethod method = CollectiveMethod::automatic;  // of interface ferry
  bool sieving = true;                                    // likewise
  // By such calls: of interface mpiio, and of ferry where it streams.
  bool collective = false;
  // Each rank moves its part through one buffer of a transfer, as threads do, of files that are
  // there or are named by file_per_thread; else it has the part in memory, and files are made.
  bool streams = false;
  unsigned writers = 0;          // who read or write for all; 0: as the interface does by itself
  bool file_per_writer = false;  // each with the data of a group of neighbouring ranks
  std::uint64_t writer_buffer_bytes = 0;  // cb_buffer_size; 0: the default
  std::uint64_t stripe_bytes = 0;         // of files that are made; 0: left to the storage
  unsigned stripe_count = 0;
  ByteOrder order = ByteOrder::native;  // in the file; of interface ferry
  unsigned element_bytes = 8;

  bool with_cache = false;  // its device has a page cache: it or another job of its group needs one

  // Whether the calls go through the device's page cache.
  bool is_cached() const {
    return interface == Interface::ferry && placement != device::Placement::host;
  }
  bool computes() const { return program == Program::iterative || program == Program::once; }
  // Whether a part lies in several files of piece_of_file_bytes() each.
  bool is_in_pieces() const {
    return program == Program::files || program == Program::metadata || open_files != 0;
  }
  std::uint64_t piece_of_file_bytes() const {
    return open_files != 0 ? total_bytes / open_files : transfer_bytes;
  }
  bool mixes() const { return read_percent != 0; }
  bool draws() const { return offsets == Offsets::zipf || offsets == Offsets::hotspot; }
  // Whether calls may leave some places alone without a deadline.
  bool may_leave_places() const { return draws() || time_ms != 0; }
  // Whether several calls may go to one place.
  bool may_return() const { return may_leave_places() || passes > 1; }
  // Whether two of them may be in flight.
  bool may_overlap() const { return may_return() && queue_depth > 1; }
  bool flushes() const { return sync == Sync::flush || sync == Sync::flush_and_fsync; }
  bool is_striped() const { return stripe_bytes != 0 || stripe_count != 0; }
  bool syncs() const { return sync == Sync::fsync || sync == Sync::flush_and_fsync; }
  std::uint64_t part_bytes() const { return total_bytes / threads; }
  // What one call moves.
  std::uint64_t call_bytes() const {
    return program == Program::once ? part_bytes() : transfer_bytes;
  }
  std::uint64_t calls_per_thread() const { return part_bytes() / call_bytes(); }
  // From the first byte that is moved to the last, and the gaps between.
  std::uint64_t span_bytes() const {
    return stride_bytes != 0 ? calls_per_thread() * threads * stride_bytes : total_bytes;
  }
  // For each call in flight; where reads and writes are mixed, one for either.
  std::uint64_t buffers() const { return std::uint64_t{queue_depth} * (mixes() ? 2 : 1); }
  std::uint64_t buffer_bytes() const { return call_bytes() * buffers(); }
};

struct Plan {
  unsigned repeats = 1;
  std::uint64_t time_limit_ms = 0;  // no round of repeats begins later than that; 0: no limit
  Device device = Device::cpu;
  RuntimeOptions runtime;  // its cache is for the cells that are cached; the others have none
  std::vector<RuntimeOptions> variants;  // the same with changes, side by side with it
  std::vector<Cell> cells;
  bool in_order = false;  // each cell with all its repeats, then the next; else they take turns
  std::string text;       // that it was read from
};

// Throws PlanError. Fills in the sizes of the arena and of the page cache and the number of device
// threads, or ranks, from the cells where the plan leaves them out.
Plan read_plan(std::string text);

// Whether one job of a group reads the file that the other writes.
bool reads_from(const Cell& reader, const Cell& writer);

// The cells that run together, by their places in the plan: each group's, and each other by itself.
std::vector<std::vector<std::size_t>> groups_of(const std::vector<Cell>& cells);

const char* name_of(Device device);
const char* name_of(Interface interface);
const char* name_of(Program program);
const char* name_of(MeasuredOperation operation);
const char* name_of(device::Placement placement);

}  // namespace ferry::bench
