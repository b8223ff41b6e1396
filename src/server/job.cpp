#include "server/job.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include <ferry/device/file_calls.hpp>

namespace ferry::server {
namespace {

using device::ArenaView;
using device::Opcode;
using device::Request;
using storage::Kind;

// The checks of Linux's rw_verify_area(): negative positions, and ranges beyond the largest one.
int check_range(std::int64_t offset, std::uint64_t bytes) {
  if (offset < 0) return -EINVAL;
  constexpr auto largest = std::numeric_limits<std::int64_t>::max();
  if (bytes > static_cast<std::uint64_t>(largest - offset)) return -EINVAL;
  return 0;
}

int plain_transfer(Job& job, const ArenaView& arena) {
  const Request& request = job.request;
  if (!arena.allows(request.buffer, request.length)) return -EFAULT;
  if (request.length > device::transfer_bytes_max) return -EINVAL;
  if (const int error = check_range(request.offset, request.length); error != 0) return error;
  job.one = iovec{arena.address_of(request.buffer), request.length};
  job.vectors = {&job.one, 1};
  return 0;
}

int vectored_transfer(Job& job, const ArenaView& arena) {
  const Request& request = job.request;
  if (request.length > device::extents_max) return -EINVAL;
  if (request.buffer % alignof(device::BufferExtent) != 0) return -EFAULT;
  if (!arena.allows_to_server(request.buffer, request.length * sizeof(device::BufferExtent)))
    return -EFAULT;
  // Copied before the checks: the program may change them meanwhile.
  const unsigned char* list = arena.address_of(request.buffer);
  job.many.resize(request.length);
  std::uint64_t total = 0;
  for (std::uint64_t i = 0; i < request.length; ++i) {
    device::BufferExtent extent{};
    std::memcpy(&extent, list + i * sizeof extent, sizeof extent);
    if (!arena.allows(extent.buffer, extent.length)) return -EFAULT;
    // Linux limits the size of a transfer; so does this.
    extent.length = std::min(extent.length, device::transfer_bytes_max - total);
    total += extent.length;
    job.many[i] = iovec{arena.address_of(extent.buffer), extent.length};
  }
  if (const int error = check_range(request.offset, total); error != 0) return error;
  job.vectors = job.many;
  return 0;
}

int copy_path(Job& job, const ArenaView& arena) {
  const Request& request = job.request;
  if (request.length == 0 || request.length > job.path_copy.size()) return -ENAMETOOLONG;
  if (!arena.allows_to_server(request.buffer, request.length)) return -EFAULT;
  std::memcpy(job.path_copy.data(), arena.address_of(request.buffer), request.length);
  if (job.path_copy[request.length - 1] != '\0') return -EINVAL;
  job.path = job.path_copy.data();
  return 0;
}

int status_target(const Job& job, const ArenaView& arena) {
  return arena.allows_to_server(job.request.buffer, sizeof(device::FileStatus)) ? 0 : -EFAULT;
}

// The part of validation that needs no file.
int translate(Job& job, const ArenaView& arena) {
  const Request& request = job.request;
  job.offset = request.offset;
  job.flags = 0;  // a status follows links, whatever this job opened before
  job.sync_follows = false;
  switch (request.opcode) {
    case Opcode::open:
      job.kind = Kind::open;
      job.flags = static_cast<int>(request.argument);
      job.mode = request.mode;
      return copy_path(job, arena);
    case Opcode::unlink:
      job.kind = Kind::unlink;
      return copy_path(job, arena);
    case Opcode::path_status:
      job.kind = Kind::path_status;
      if (const int error = status_target(job, arena); error != 0) return error;
      return copy_path(job, arena);
    case Opcode::file_status:
      job.kind = Kind::file_status;
      return status_target(job, arena);
    case Opcode::read:
      job.kind = Kind::read;
      return plain_transfer(job, arena);
    case Opcode::write:
      job.kind = (request.flags & device::flag_append) != 0 ? Kind::append : Kind::write;
      job.sync_follows = (request.flags & device::flag_sync_follows) != 0;
      return plain_transfer(job, arena);
    case Opcode::read_vector:
      job.kind = Kind::read;
      return vectored_transfer(job, arena);
    case Opcode::write_vector:
      job.kind = Kind::write;
      job.sync_follows = (request.flags & device::flag_sync_follows) != 0;
      return vectored_transfer(job, arena);
    case Opcode::sync:
      job.kind = Kind::sync;
      return 0;
    case Opcode::sync_data:
      job.kind = Kind::sync_data;
      return 0;
    case Opcode::truncate:
      job.kind = Kind::truncate;
      return request.offset < 0 ? -EINVAL : 0;
    case Opcode::close:
      job.kind = Kind::close;
      return 0;
    case Opcode::nop:
    case Opcode::cached_read:
    case Opcode::cached_write:
    case Opcode::cached_read_vector:
    case Opcode::cached_write_vector:
      break;
  }
  return -EINVAL;  // nop and cached calls never get here; anything else is invalid
}

bool names_file(Opcode opcode) {
  return opcode != Opcode::open && opcode != Opcode::unlink && opcode != Opcode::path_status &&
         opcode != Opcode::close;
}

}  // namespace

int validate(Job& job, const device::ArenaView& arena, FileTable& files) {
  job.holds_file = false;
  job.file = nullptr;
  // The file first: POSIX reports a bad descriptor before a bad range.
  if (names_file(job.request.opcode)) {
    job.file = files.acquire(job.request.file);
    if (job.file == nullptr) {
      // An invalid opcode must not be taken for a call on a file.
      return job.request.opcode <= Opcode::unlink ? -EBADF : -EINVAL;
    }
    job.holds_file = true;
  }
  const int error = translate(job, arena);
  if (error != 0 && job.holds_file) {
    files.release(job.request.file);
    job.holds_file = false;
  }
  return error;
}

device::FileStatus to_device(const storage::Status& status) {
  device::FileStatus to{};
  to.size_bytes = status.size_bytes;
  to.allocated_bytes = status.allocated_bytes;
  to.inode = status.inode;
  to.device = status.device;
  to.modified_ns = status.modified_ns;
  to.mode = status.mode;
  to.links = status.links;
  to.owner = status.owner;
  to.group = status.group;
  to.block_bytes = status.block_bytes;
  to.version = status.version;
  to.generated = status.generated ? 1 : 0;
  return to;
}

}  // namespace ferry::server
