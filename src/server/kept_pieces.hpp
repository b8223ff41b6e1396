// Collects writes that arrive in pieces but must be one: appends larger than a staging area.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

#include <ferry/device/cached_transfer.hpp>
#include <ferry/device/control.hpp>

#include "server/job.hpp"

namespace ferry::server {

// Keeps one write per group, up to the size of a transfer, and up to `bytes_max` for all groups
// together: an unfinished one stays until its group begins another. For one thread.
class KeptPieces {
 public:
  static constexpr std::uint64_t bytes_max = 4 * device::transfer_bytes_max;

  explicit KeptPieces(const device::ArenaView& arena) : arena_(arena) {}

  // Whether the request, a write, is one of several pieces.
  static bool is_piece(const device::Request& request) {
    return (request.flags & device::flag_more) != 0 || request.kept != 0;
  }
  // Copies a validated piece that others follow. Returns 0 or a negative errno.
  int keep(const Job& job);
  // Prepends the kept pieces to the last one, to be written then. Returns 0 or a negative errno.
  int complete(Job& job);

 private:
  struct Pieces {
    std::int32_t file = 0;
    std::vector<std::byte> bytes;
  };
  std::uint32_t group_of(const device::Request& request) const;
  // The bytes kept of the write that this piece continues. Returns 0, or why it continues none.
  int find(const device::Request& request, Pieces*& found);

  void forget(std::uint32_t group);

  const device::ArenaView& arena_;
  std::unordered_map<std::uint32_t, Pieces> by_group_;
  std::uint64_t bytes_ = 0;  // of all of them
};

}  // namespace ferry::server
