// A request in the server: validated, translated, and kept until answered.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <sys/uio.h>

#include <ferry/device/control.hpp>

#include "server/file_table.hpp"
#include "storage/storage.hpp"

namespace ferry::server {

// One slot of a loop's table of requests in flight: the storage operation, and what to do with its
// result. `next` links free slots.
struct Job final : storage::Operation {
  device::Request request{};    // the private copy; shared memory is never read twice
  bool in_storage = false;      // between submit() and reap()
  bool reaped = false;          // after that, until it is answered
  bool reserved = false;        // a slot of the file table is reserved for the file it opens
  bool holds_file = false;      // release() is due
  iovec one{};                  // the vector of a plain transfer
  std::vector<iovec> many;      // those of a vectored one; keeps its memory between jobs
  std::vector<std::byte> kept;  // the first bytes of a write that came in pieces
  std::array<char, device::path_bytes_max> path_copy;
};

// Turns job.request into a storage operation: checks opcode, file, overflow of the range, and
// memory inside the arena; copies paths and extents out of shared memory before using them. Returns
// 0 (with the file acquired, if any) or the errno to answer.
int validate(Job& job, const device::ArenaView& arena, FileTable& files);

// The part of a file status that devices see.
device::FileStatus to_device(const storage::Status& status);

}  // namespace ferry::server
