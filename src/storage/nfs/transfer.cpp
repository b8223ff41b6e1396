#include "storage/nfs/transfer.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/sanitizer.hpp"

namespace ferry::storage {
namespace {

std::vector<NfsPiece> cut(const Operation& operation, const NfsFile& file) {
  std::vector<NfsPiece> pieces;
  if (operation.kind != Kind::read && operation.kind != Kind::write) {
    pieces.emplace_back();  // a commit
    return pieces;
  }
  const std::size_t most =
      operation.kind == Kind::read ? file.read_bytes_max : file.write_bytes_max;
  std::size_t left = 0;
  for (const iovec& vector : operation.vectors)
    left += vector.iov_len;
  auto offset = static_cast<std::uint64_t>(operation.offset);
  std::size_t vector = 0;
  std::size_t skip = 0;
  while (left > 0) {
    NfsPiece piece;
    piece.offset = offset;
    piece.bytes = std::min(left, most);
    piece.first = vector;
    piece.skip = skip;
    pieces.push_back(piece);
    left -= piece.bytes;
    offset += piece.bytes;
    skip += piece.bytes;
    while (vector < operation.vectors.size() && skip >= operation.vectors[vector].iov_len) {
      skip -= operation.vectors[vector].iov_len;
      ++vector;
    }
  }
  return pieces;
}

}  // namespace

NfsTransfer::NfsTransfer(Operation& operation, Inbox& inbox)
    : operation_(operation),
      inbox_(inbox),
      file_(static_cast<NfsFile&>(*operation.file)),
      writes_(file_.writes->of_file()),
      changes_(file_.changes),
      kind_(operation.kind),
      sync_follows_(operation.sync_follows),
      vectors_(operation.vectors),
      pieces_(cut(operation, file_)),
      left_(pieces_.size()) {}

template <class Use>
void NfsTransfer::each_stretch(const NfsPiece& piece, std::size_t bytes, Use use) const {
  std::size_t skip = piece.skip + piece.moved;
  for (std::size_t i = piece.first; bytes > 0; ++i) {
    const iovec& vector = vectors_[i];
    if (skip >= vector.iov_len) {
      skip -= vector.iov_len;
      continue;
    }
    const std::size_t here = std::min(bytes, vector.iov_len - skip);
    use(static_cast<char*>(vector.iov_base) + skip, here);
    bytes -= here;
    skip = 0;
  }
}

const char* NfsTransfer::source(const NfsPiece& piece, std::vector<char>& gathered) const {
  const std::size_t bytes = piece.bytes - piece.moved;
  const char* whole = nullptr;
  each_stretch(piece, bytes, [&](const char* memory, std::size_t here) {
    if (here == bytes) whole = memory;
  });
  if (whole != nullptr) return whole;
  gathered.clear();
  // A page of a device's cache may change during its write-back; the change is written later.
  const UnseenReads unseen;
  each_stretch(piece, bytes, [&](const char* memory, std::size_t here) {
    gathered.insert(gathered.end(), memory, memory + here);
  });
  return gathered.data();
}

void NfsTransfer::take(const NfsPiece& piece, const char* data, std::size_t bytes) const {
  each_stretch(piece, bytes, [&](char* memory, std::size_t here) {
    std::memcpy(memory, data, here);
    data += here;
  });
}

// The bytes that arrived from the beginning without a gap; an error only if there are none.
std::int64_t NfsTransfer::result() const {
  std::int64_t total = 0;
  for (const NfsPiece& piece : pieces_) {
    total += static_cast<std::int64_t>(piece.moved);
    if (piece.error != 0) return total > 0 ? total : piece.error;
    if (piece.moved < piece.bytes) return total;  // the end of the file
  }
  return total;
}

void NfsTransfer::finish_piece() {
  // Release and acquire: the last one sees all others' results.
  if (left_.fetch_sub(1, std::memory_order_acq_rel) > 1) return;
  operation_.result = result();
  inbox_.put(operation_);
}

}  // namespace ferry::storage
