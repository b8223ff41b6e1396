// Reads of a server's file: in blocks that are kept, and ahead of a program that reads on and on.
//
// HDF5 reads metadata in pieces of some hundred bytes, and chunks that have filters one after
// another. Each would wait for the server once. Blocks answer the small reads, and what is read
// ahead is there when it is wanted.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <memory>

#include <ferry/bulk.hpp>

#include "hdf5/pieces.hpp"

namespace ferry::hdf5 {

// Not thread-safe. Blocks hold what the file had when they were read, and this program's writes
// since: the caller says what it writes. The file outlives it.
class BlockCache {
 public:
  static constexpr std::uint64_t block_bytes = 64 << 10;
  static constexpr std::uint64_t request_bytes_max = 1 << 20;
  // Of one file. Once all files together have more than the second, of each further one the third.
  static constexpr std::uint64_t memory_bytes_max = 16 << 20;
  static constexpr std::uint64_t all_memory_bytes_max = 256 << 20;
  static constexpr std::uint64_t scarce_memory_bytes_max = 2 << 20;

  explicit BlockCache(const bulk::File& file) : file_(file) {}
  ~BlockCache();
  BlockCache(const BlockCache&) = delete;
  BlockCache& operator=(const BlockCache&) = delete;

  // Begins to read what is absent of these bytes.
  void request(std::uint64_t offset, std::uint64_t bytes);
  // How much may be requested at once so that all of it stays until it is read, in whole blocks.
  std::uint64_t together_bytes_max() const { return memory_bytes_limit() / 4; }
  // How far a program that reads on is read ahead at most.
  std::uint64_t ahead_bytes_max() const { return memory_bytes_limit() / 2; }
  // Begins to read what a program that reads on after these bytes will want, up to the end of the
  // file.
  void request_ahead(std::uint64_t offset, std::uint64_t bytes, std::uint64_t file_bytes);
  // Reads the piece, from blocks where they are there. Zeros follow the end of the file. Throws
  // ferry::Error.
  void read(const ReadPiece& piece);
  // These bytes have been written, or will be before the next read of the file.
  void written(const WritePiece& piece);
  // The file ends here now.
  void truncated(std::uint64_t file_bytes);

 private:
  // One read of the file: some blocks that follow one another.
  struct Request {
    std::uint64_t first_block = 0;
    std::uint64_t blocks = 0;
    std::unique_ptr<std::byte[]> memory;
    bulk::Future future;  // valid while it is in flight
    std::uint64_t offset() const { return first_block * block_bytes; }
    std::uint64_t bytes() const { return blocks * block_bytes; }
  };
  using Requests = std::list<Request>;

  // A place that the program reads on from.
  struct Stream {
    std::uint64_t next = 0;        // the end of what it has read
    std::uint64_t read_bytes = 0;  // as much is read ahead
    std::uint64_t requested = 0;   // the end of what was read ahead
    std::uint64_t last_use = 0;
  };

  std::uint64_t memory_bytes_limit() const;
  void begin(std::uint64_t first_block, std::uint64_t blocks);
  void make_room(std::uint64_t bytes);
  void settle(Request& request);
  void forget(Requests::iterator request);
  Stream& stream_of(std::uint64_t offset);

  const bulk::File& file_;
  Requests requests_;  // the one used last comes last
  std::map<std::uint64_t, Requests::iterator> blocks_;
  std::uint64_t memory_bytes_ = 0;
  std::array<Stream, 4> streams_{};
  std::uint64_t uses_ = 0;
};

}  // namespace ferry::hdf5
