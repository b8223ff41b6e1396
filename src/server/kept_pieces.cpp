#include "server/kept_pieces.hpp"

#include <cerrno>
#include <limits>
#include <new>
#include <utility>

#include <ferry/device/cached_transfer.hpp>

namespace ferry::server {

std::uint32_t KeptPieces::group_of(const device::Request& request) const {
  return request.cell / arena_.layout.geometry.cells_per_group;
}

int KeptPieces::find(const device::Request& request, Pieces*& found) {
  // Read here, not by the storage.
  if (!arena_.allows_to_server(request.buffer, request.length)) return -EFAULT;
  const auto at = by_group_.find(group_of(request));
  if (at == by_group_.end()) return -EINVAL;
  found = &at->second;
  const bool fits = found->file == request.file && found->bytes.size() == request.kept &&
                    request.length <= device::transfer_bytes_max - request.kept;
  return fits ? 0 : -EINVAL;
}

int KeptPieces::keep(const Job& job) try {
  const std::uint32_t group = group_of(job.request);
  if (group >= arena_.layout.geometry.groups) return -EINVAL;
  // The first piece of another write: the group has abandoned the previous one.
  if (job.request.kept == 0) {
    forget(group);
    by_group_[group].file = job.request.file;
  }
  Pieces* pieces = nullptr;
  if (const int error = find(job.request, pieces); error != 0) return error;
  if (job.one.iov_len > bytes_max - bytes_) {
    forget(group);
    return -ENOMEM;
  }
  const auto* bytes = static_cast<const std::byte*>(job.one.iov_base);
  pieces->bytes.insert(pieces->bytes.end(), bytes, bytes + job.one.iov_len);
  bytes_ += job.one.iov_len;
  return 0;
} catch (const std::bad_alloc&) {
  forget(group_of(job.request));
  return -ENOMEM;
}

void KeptPieces::forget(std::uint32_t group) {
  const auto at = by_group_.find(group);
  if (at == by_group_.end()) return;
  bytes_ -= at->second.bytes.size();
  by_group_.erase(at);
}

int KeptPieces::complete(Job& job) {
  Pieces* pieces = nullptr;
  if (const int error = find(job.request, pieces); error != 0) return error;
  // validate() checked only the last piece.
  const std::uint64_t all = job.request.kept + job.request.length;
  constexpr std::uint64_t largest = std::numeric_limits<std::int64_t>::max();
  if (all > largest - static_cast<std::uint64_t>(job.request.offset)) return -EINVAL;
  bytes_ -= pieces->bytes.size();
  job.kept = std::move(pieces->bytes);
  by_group_.erase(group_of(job.request));
  job.many.assign({iovec{job.kept.data(), job.kept.size()}, job.one});
  job.vectors = job.many;
  return 0;
}

}  // namespace ferry::server
