// An open file of the driver: a mounted one by direct calls, a server's through blocks that are
// kept and writes that are waited for later.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <ferry/bulk.hpp>

#include "base/forks.hpp"
#include "hdf5/block_cache.hpp"
#include "hdf5/pending_writes.hpp"
#include "hdf5/pieces.hpp"

namespace ferry::hdf5 {

// One thread at a time, as HDF5 has it. In a child of fork() it becomes a file of the child's own
// with the first call; what the parent has not yet written is the parent's. Calls throw
// ferry::Error.
class DriverFile {
 public:
  // `flags` as for open(2).
  DriverFile(const std::string& path, int flags);
  // Waits for writes, and ignores their errors.
  ~DriverFile();
  DriverFile(const DriverFile&) = delete;
  DriverFile& operator=(const DriverFile&) = delete;

  // Fill all memory: with zeros behind the end of the file.
  void read(const ReadPiece& piece);
  // Puts the pieces in order.
  void read_vector(std::span<ReadPiece> pieces);
  // Pieces that overlap are written in their order.
  void write(const WritePiece& piece);
  void write_vector(const std::vector<WritePiece>& pieces);
  // Of a server's file: all that was written is durable. A mounted file's is the kernel's.
  void flush();
  void truncate(std::uint64_t bytes);
  void close();

  // With this program's writes.
  std::uint64_t size_bytes() const { return size_bytes_; }
  // As it was opened.
  const bulk::OpenStatus& status() const { return status_; }
  bool is_mounted() const { return descriptor_ >= 0; }
  // Of a mounted file; otherwise -1.
  int descriptor();

 private:
  // What only a server's file has. Destroyed before the file.
  struct Remote {
    explicit Remote(const bulk::File& file) : blocks(file), writes(file) {}
    BlockCache blocks;
    PendingWrites writes;
  };

  void come_to_this_process();
  void settle();
  void read_pieces(std::span<const ReadPiece> pieces);
  void read_mounted(std::span<const ReadPiece> pieces);
  void read_one(const ReadPiece& piece) const;
  void read_remote(std::span<const ReadPiece> pieces);
  void read_blocks(std::span<const ReadPiece> pieces);
  void write_together(std::span<const WritePiece> pieces);

  bulk::Engine engine_;
  bulk::File file_;
  MadeHere made_here_;
  int descriptor_ = -1;
  const bulk::OpenStatus status_;
  std::uint64_t size_bytes_ = 0;
  bool has_unsynced_ = false;  // of a server's file
  std::unique_ptr<Remote> remote_;
};

}  // namespace ferry::hdf5
