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

// Keeps one write for each group, of as many bytes as a transfer may have, and of all groups
// together no more than `bytes_max`: what a program began and never ends stays until its group
// begins another one. For one thread.
class KeptPieces {
 public:
  static constexpr std::uint64_t bytes_max = 4 * device::transfer_bytes_max;

  explicit KeptPieces(const device::ArenaView& arena) : arena_(arena) {}

  // Whether the request, which is a write, is one of several pieces.
  static bool is_piece(const device::Request& request) {
    return (request.flags & device::flag_more) != 0 || request.kept != 0;
  }
  // Takes a copy of a validated piece that others follow. 0 or a negative errno.
  int keep(const Job& job);
  // Puts what was kept in front of the last piece, which is to be written then. 0 or a negative
  // errno.
  int complete(Job& job);

 private:
  struct Pieces {
    std::int32_t file = 0;
    std::vector<std::byte> bytes;
  };
  std::uint32_t group_of(const device::Request& request) const;
  // What is kept of the write that this is the next piece of. 0, or why it is none.
  int find(const device::Request& request, Pieces*& found);

  void forget(std::uint32_t group);

  const device::ArenaView& arena_;
  std::unordered_map<std::uint32_t, Pieces> by_group_;
  std::uint64_t bytes_ = 0;  // of all of them
};

}  // namespace ferry::server
