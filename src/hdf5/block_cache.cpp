#include "hdf5/block_cache.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace ferry::hdf5 {
namespace {

// A program reads on if its next read begins at most this far behind the last one: HDF5 skips what
// it knows already.
constexpr std::uint64_t skipped_bytes_max = 256 << 10;

// Of all files.
std::atomic<std::uint64_t> all_memory_bytes{0};

std::uint64_t block_of(std::uint64_t offset) {
  return offset / BlockCache::block_bytes;
}

}  // namespace

void BlockCache::request(std::uint64_t offset, std::uint64_t bytes) {
  if (bytes == 0) return;
  constexpr std::uint64_t blocks_max = request_bytes_max / block_bytes;
  const std::uint64_t end = block_of(offset + bytes - 1) + 1;
  std::uint64_t block = block_of(offset);
  while (block < end) {
    if (const auto found = blocks_.find(block); found != blocks_.end()) {
      requests_.splice(requests_.end(), requests_, found->second);
      ++block;
      continue;
    }
    std::uint64_t count = 1;
    while (count < blocks_max && block + count < end && !blocks_.contains(block + count))
      ++count;
    begin(block, count);
    block += count;
  }
}

void BlockCache::request_ahead(std::uint64_t offset, std::uint64_t bytes,
                               std::uint64_t file_bytes) {
  Stream& stream = stream_of(offset);
  const bool reads_on =
      stream.last_use != 0 && offset >= stream.next && offset - stream.next <= skipped_bytes_max;
  stream.last_use = ++uses_;
  stream.next = offset + bytes;
  if (!reads_on) {
    stream.read_bytes = bytes;
    stream.requested = stream.next;
    return;
  }
  stream.read_bytes += bytes;
  const std::uint64_t ahead = std::clamp(stream.read_bytes, 2 * block_bytes, ahead_bytes_max());
  const std::uint64_t end = std::min(file_bytes, stream.next + ahead);
  const std::uint64_t begin = std::max(stream.next, stream.requested);
  // Half of it at a time, so that requests are large.
  if (begin >= end || (end - begin < ahead / 2 && end != file_bytes)) return;
  request(begin, end - begin);
  stream.requested = end;
}

// The one that the read continues, else the one not used for longest.
BlockCache::Stream& BlockCache::stream_of(std::uint64_t offset) {
  Stream* oldest = &streams_.front();
  for (Stream& stream : streams_) {
    const bool continues = offset >= stream.next && offset - stream.next <= skipped_bytes_max;
    if (stream.last_use != 0 && continues) return stream;
    if (stream.last_use < oldest->last_use) oldest = &stream;
  }
  return *oldest;
}

void BlockCache::begin(std::uint64_t first_block, std::uint64_t blocks) {
  make_room(blocks * block_bytes);
  Request request;
  request.first_block = first_block;
  request.blocks = blocks;
  request.memory = std::make_unique_for_overwrite<std::byte[]>(request.bytes());
  request.future = file_.read_at_async(request.memory.get(), request.bytes(), request.offset());
  requests_.push_back(std::move(request));
  memory_bytes_ += requests_.back().bytes();
  all_memory_bytes.fetch_add(requests_.back().bytes(), std::memory_order_relaxed);
  for (std::uint64_t i = 0; i < blocks; ++i)
    blocks_.emplace(first_block + i, std::prev(requests_.end()));
}

std::uint64_t BlockCache::memory_bytes_limit() const {
  const std::uint64_t all = all_memory_bytes.load(std::memory_order_relaxed);
  return all - memory_bytes_ > all_memory_bytes_max ? scarce_memory_bytes_max : memory_bytes_max;
}

void BlockCache::make_room(std::uint64_t bytes) {
  while (!requests_.empty() && memory_bytes_ + bytes > memory_bytes_limit())
    forget(requests_.begin());
}

BlockCache::~BlockCache() {
  while (!requests_.empty())
    forget(requests_.begin());
}

// Waits for a read in flight: it is not cancelled, because storages cannot say at a close whether
// what a client library still has was only a read.
void BlockCache::forget(Requests::iterator request) {
  if (request->future.valid()) request->future.wait();
  for (std::uint64_t i = 0; i < request->blocks; ++i)
    blocks_.erase(request->first_block + i);
  memory_bytes_ -= request->bytes();
  all_memory_bytes.fetch_sub(request->bytes(), std::memory_order_relaxed);
  requests_.erase(request);
}

void BlockCache::settle(Request& request) {
  if (!request.future.valid()) return;
  bulk::Future future = std::move(request.future);
  const std::uint64_t valid_bytes = future.get();
  std::memset(request.memory.get() + valid_bytes, 0, request.bytes() - valid_bytes);
}

void BlockCache::read(const ReadPiece& piece) {
  std::uint64_t at = piece.offset;
  while (at < piece.end()) {
    auto found = blocks_.find(block_of(at));
    if (found == blocks_.end()) {  // never requested, or room was made for others
      request(at, std::min(piece.end() - at, request_bytes_max));
      found = blocks_.find(block_of(at));
    }
    const Requests::iterator request = found->second;
    try {
      settle(*request);
    } catch (...) {
      forget(request);
      throw;
    }
    const std::uint64_t skip = at - request->offset();
    const std::uint64_t bytes = std::min(piece.end() - at, request->bytes() - skip);
    std::memcpy(piece.data + (at - piece.offset), request->memory.get() + skip, bytes);
    requests_.splice(requests_.end(), requests_, request);
    at += bytes;
  }
}

void BlockCache::written(const WritePiece& piece) {
  if (piece.bytes == 0) return;
  auto found = blocks_.lower_bound(block_of(piece.offset));
  while (found != blocks_.end() && found->first <= block_of(piece.end() - 1)) {
    const Requests::iterator request = found->second;
    const std::uint64_t after = request->first_block + request->blocks;
    if (request->future.valid()) {  // it may have the bytes from before
      forget(request);
    } else {
      const std::uint64_t from = std::max(piece.offset, request->offset());
      const std::uint64_t to = std::min(piece.end(), request->offset() + request->bytes());
      std::memcpy(request->memory.get() + (from - request->offset()),
                  piece.data + (from - piece.offset), to - from);
    }
    found = blocks_.lower_bound(after);
  }
}

void BlockCache::truncated(std::uint64_t file_bytes) {
  auto found = blocks_.lower_bound(block_of(file_bytes));
  while (found != blocks_.end()) {
    forget(found->second);
    found = blocks_.lower_bound(block_of(file_bytes));
  }
}

}  // namespace ferry::hdf5
