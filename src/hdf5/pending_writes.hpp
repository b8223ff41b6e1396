// Writes of a server's file: what follows one another goes as one request, and the program does not
// wait for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <vector>

#include <ferry/bulk.hpp>

#include "hdf5/pieces.hpp"

namespace ferry::hdf5 {

// Not thread-safe. HDF5 takes for written what it has passed on. So the next write tells of an
// error, every settle_all() does, and bytes that were not written cannot be read. The file outlives
// it.
class PendingWrites {
 public:
  static constexpr std::uint64_t request_bytes_max = 1 << 20;
  static constexpr std::uint64_t memory_bytes_max = 16 << 20;
  static constexpr std::size_t requests_max = 64;

  explicit PendingWrites(const bulk::File& file) : file_(file) {}
  // Waits for them.
  ~PendingWrites();
  PendingWrites(const PendingWrites&) = delete;
  PendingWrites& operator=(const PendingWrites&) = delete;

  // Copies the bytes. Waits while too much is in flight. These throw ferry::Error.
  void write(const WritePiece& piece);
  // Returns when no write of these bytes is under way any more, as before a read.
  void settle(std::uint64_t offset, std::uint64_t bytes);
  // That none of them has failed.
  void check(std::uint64_t offset, std::uint64_t bytes) const;
  void settle_all();
  // Whether some of these bytes may not be in the file yet.
  bool has(std::uint64_t offset, std::uint64_t bytes) const;

 private:
  struct Request {
    std::uint64_t offset = 0;
    std::vector<std::byte> data;
    bulk::Future future;
  };
  struct FailedRange {
    std::uint64_t offset = 0;
    std::uint64_t bytes = 0;
  };

  bool is_in_flight(std::uint64_t offset, std::uint64_t bytes) const;
  void send_gathered();
  void end_first();
  void reap();
  void fail(std::uint64_t offset, std::uint64_t bytes);

  const bulk::File& file_;
  std::uint64_t gathered_offset_ = 0;
  std::vector<std::byte> gathered_;  // not sent yet
  // Two that overlap are never in flight together.
  std::deque<Request> in_flight_;
  std::uint64_t memory_bytes_ = 0;
  std::exception_ptr error_;  // the first
  bool is_told_ = false;
  std::vector<FailedRange> failed_;
};

}  // namespace ferry::hdf5
