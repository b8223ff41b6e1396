// The plan of ferry-bench-mpi: what many ranks measure on shared files. JSON, schema
// "ferry.mpi-plan/1".
#pragma once

#include <cstdint>
#include <istream>
#include <string>
#include <vector>

#include <ferry/byte_order.hpp>
#include <ferry/collective.hpp>

#include "harness/plan.hpp"

namespace ferry::bench::mpi {

enum class Interface : std::uint8_t {
  posix,   // each rank its own part, by pread and pwrite
  mpiio,   // MPI-IO of the MPI library
  ferry,   // file views of libferry_mpi
  native,  // Ferry's storage itself, each rank its own part: of ceph:/path, libcephfs
};

// Which part of a file a rank has.
enum class Pattern : std::uint8_t {
  blocks,       // one piece
  interleaved,  // pieces of piece_bytes, in turn with the other ranks
};

// One point of a study's matrix.
struct Cell {
  std::string id;
  Interface interface = Interface::posix;
  collective::Method method = collective::Method::automatic;  // of interface ferry
  bool collective = false;  // of interface mpiio: by its collective calls
  Operation operation = Operation::read;
  Pattern pattern = Pattern::blocks;
  std::string path;  // or a URI
  unsigned ranks = 1;
  unsigned writers = 0;          // who read or write for all; 0: as the interface does by itself
  bool file_per_writer = false;  // PATH.0 and so on, each with the data of a group of ranks
  std::uint64_t transfer_bytes = 0;  // of one call of a rank
  std::uint64_t total_bytes = 0;     // of all ranks
  std::uint64_t piece_bytes = 4096;
  std::uint64_t buffer_bytes = 0;  // cb_buffer_size; 0: the default
  std::uint64_t stripe_bytes = 0;  // of files that are made; 0: left to the storage
  unsigned stripe_count = 0;
  ByteOrder order = ByteOrder::native;  // in the file; interface ferry only
  unsigned element_bytes = 8;
  bool sync = false;  // writes: an fsync after the last transfer, timed apart
  bool cold = false;  // reads: drop the file from the kernel's page cache first
  std::uint64_t seed = 1;

  std::uint64_t part_bytes() const { return total_bytes / ranks; }
  unsigned files() const { return file_per_writer ? writers : 1; }
  bool is_striped() const { return stripe_bytes != 0 || stripe_count != 0; }
};

struct Plan {
  unsigned repeats = 1;
  unsigned ranks = 1;  // the most that a cell has
  std::vector<Cell> cells;
};

// Throws PlanError.
Plan read_plan(std::istream& input);

const char* name_of(Interface interface);

}  // namespace ferry::bench::mpi
