#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <new>
#include <string>

#include <ferry/buffered_file.hpp>
#include <ferry/error.hpp>

#include "interpose/extents.hpp"

namespace ferry {
namespace {

constexpr std::uint64_t page_bytes = 4096;
constexpr std::size_t extents_max = 1024;  // a buffer with more pieces is written
constexpr auto offset_max = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());

bool fits(std::uint64_t bytes, std::uint64_t offset) {
  return bytes <= offset_max && offset <= offset_max - bytes;
}

}  // namespace

// One aligned block of the file.
struct BufferedFile::Buffer {
  static constexpr std::uint64_t none = ~std::uint64_t{0};

  explicit Buffer(std::uint64_t bytes)
      : data(static_cast<std::byte*>(::operator new (bytes, std::align_val_t{page_bytes}))) {}
  ~Buffer() { ::operator delete (data, std::align_val_t{page_bytes}); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void forget() {
    block = none;
    is_loaded = false;
    dirty.clear();
  }

  Extents dirty;  // the first: its constructor may throw
  std::byte* data;
  std::uint64_t block = none;
  bool is_loaded = false;  // all bytes are the file's, zeros behind its end
  std::uint64_t last_use = 0;
};

BufferedFile::BufferedFile(ByteFile& below, const BufferOptions& options)
    : below_(below), options_(options) {
  if (options.buffers == 0 || options.buffer_bytes == 0 || options.buffer_bytes % page_bytes != 0 ||
      options.buffer_bytes > (std::uint64_t{1} << 40)) {
    throw Error(EINVAL, std::to_string(options.buffers) + " buffers of " +
                            std::to_string(options.buffer_bytes) +
                            " bytes; use at least one, of a multiple of 4096 bytes");
  }
}

BufferedFile::~BufferedFile() {
  flush();
}

std::int64_t BufferedFile::pread(void* data, std::uint64_t bytes, std::uint64_t offset) {
  const std::lock_guard lock(mutex_);
  if (!fits(bytes, offset)) return -EINVAL;
  ++statistics_.reads;
  if (!size_known_ || offset + bytes > size_) {
    if (const std::int64_t size = refresh_size(); size < 0) return size;
  }
  bytes = offset < size_ ? std::min(bytes, size_ - offset) : 0;
  if (bytes == 0) return 0;
  std::int64_t moved = 0;
  if (passes_by(bytes)) {
    if (const int error = write_back_overlapping(offset, bytes, false)) return -error;
    moved = below_.read(data, bytes, offset);
    ++statistics_.requests_read;
    if (moved >= 0) {
      statistics_.request_read_bytes += static_cast<std::uint64_t>(moved);
      // A buffer still holds the end of the file, and the missing bytes before it are a hole.
      std::memset(static_cast<std::byte*>(data) + moved, 0,
                  bytes - static_cast<std::uint64_t>(moved));
      moved = static_cast<std::int64_t>(bytes);
    }
  } else {
    moved = copy_out(static_cast<std::byte*>(data), bytes, offset);
  }
  if (moved > 0) statistics_.read_bytes += static_cast<std::uint64_t>(moved);
  return moved;
}

std::int64_t BufferedFile::copy_out(std::byte* data, std::uint64_t bytes, std::uint64_t offset) {
  std::uint64_t done = 0;
  while (done < bytes) {
    const std::uint64_t at = offset + done;
    const std::uint64_t inside = at % options_.buffer_bytes;
    const std::uint64_t step = std::min(bytes - done, options_.buffer_bytes - inside);
    Buffer* buffer = nullptr;
    int error = buffer_for(at / options_.buffer_bytes, buffer);
    if (error == 0 && !buffer->is_loaded && !buffer->dirty.covers(inside, inside + step)) {
      error = load(*buffer);
    }
    if (error != 0) return done > 0 ? static_cast<std::int64_t>(done) : -error;
    std::memcpy(data + done, buffer->data + inside, step);
    done += step;
  }
  return static_cast<std::int64_t>(done);
}

std::int64_t BufferedFile::pwrite(const void* data, std::uint64_t bytes, std::uint64_t offset) {
  const std::lock_guard lock(mutex_);
  if (!fits(bytes, offset)) return -EFBIG;
  ++statistics_.writes;
  if (bytes == 0) return 0;
  std::int64_t moved = 0;
  if (passes_by(bytes)) {
    if (const int error = write_back_overlapping(offset, bytes, true)) return -error;
    moved = below_.write(data, bytes, offset);
    ++statistics_.requests_written;
    if (moved > 0) statistics_.request_written_bytes += static_cast<std::uint64_t>(moved);
  } else {
    moved = copy_in(static_cast<const std::byte*>(data), bytes, offset);
  }
  if (moved > 0) {
    statistics_.written_bytes += static_cast<std::uint64_t>(moved);
    size_ = std::max(size_, offset + static_cast<std::uint64_t>(moved));
  }
  return moved;
}

std::int64_t BufferedFile::copy_in(const std::byte* data, std::uint64_t bytes,
                                   std::uint64_t offset) {
  std::uint64_t done = 0;
  while (done < bytes) {
    const std::uint64_t at = offset + done;
    const std::uint64_t inside = at % options_.buffer_bytes;
    const std::uint64_t step = std::min(bytes - done, options_.buffer_bytes - inside);
    Buffer* buffer = nullptr;
    int error = buffer_for(at / options_.buffer_bytes, buffer);
    if (error == 0 && (buffer->dirty.size() >= extents_max || !buffer->dirty.make_room()))
      error = write_back(*buffer);
    if (error != 0) return done > 0 ? static_cast<std::int64_t>(done) : -error;
    std::memcpy(buffer->data + inside, data + done, step);
    buffer->dirty.add(inside, inside + step);
    done += step;
    // Full buffers are written immediately. If that fails, the next user of the buffer tries again.
    if (buffer->dirty.covers(0, options_.buffer_bytes) && write_back(*buffer) == 0) {
      buffer->is_loaded = true;
    }
  }
  return static_cast<std::int64_t>(done);
}

// Whether a transfer is made without buffers: a large one, and any while there is no memory.
bool BufferedFile::passes_by(std::uint64_t bytes) {
  return bytes >= options_.buffer_bytes || (buffers_.empty() && !add_buffer());
}

bool BufferedFile::add_buffer() try {
  buffers_.push_back(std::make_unique<Buffer>(options_.buffer_bytes));
  return true;
} catch (const std::bad_alloc&) {
  return false;
}

// The buffer of a block: its own, a new one, or the least recently used one. There is one.
int BufferedFile::buffer_for(std::uint64_t block, Buffer*& found) {
  Buffer* oldest = nullptr;
  for (const auto& buffer : buffers_) {
    if (buffer->block == block) {
      found = buffer.get();
      found->last_use = ++uses_;
      return 0;
    }
    if (oldest == nullptr || buffer->last_use < oldest->last_use) oldest = buffer.get();
  }
  if (oldest->block != Buffer::none && buffers_.size() < options_.buffers && add_buffer())
    oldest = buffers_.back().get();
  if (const int error = write_back(*oldest)) return error;
  oldest->forget();
  oldest->block = block;
  oldest->last_use = ++uses_;
  found = oldest;
  return 0;
}

int BufferedFile::load(Buffer& buffer) {
  if (const int error = write_back(buffer)) return error;
  const std::int64_t got =
      below_.read(buffer.data, options_.buffer_bytes, buffer.block * options_.buffer_bytes);
  if (got < 0) return static_cast<int>(-got);
  ++statistics_.requests_read;
  statistics_.request_read_bytes += static_cast<std::uint64_t>(got);
  std::memset(buffer.data + got, 0, options_.buffer_bytes - static_cast<std::uint64_t>(got));
  buffer.is_loaded = true;
  return 0;
}

int BufferedFile::write_back(Buffer& buffer) {
  const auto& dirty = buffer.dirty.all();
  for (std::size_t i = 0; i < dirty.size(); ++i) {
    const std::uint64_t bytes = dirty[i].end - dirty[i].begin;
    const std::int64_t moved = below_.write(buffer.data + dirty[i].begin, bytes,
                                            buffer.block * options_.buffer_bytes + dirty[i].begin);
    if (moved < 0) {
      buffer.dirty.erase_before(i);
      return static_cast<int>(-moved);
    }
    ++statistics_.requests_written;
    statistics_.request_written_bytes += bytes;
  }
  buffer.dirty.clear();
  return 0;
}

int BufferedFile::write_back_overlapping(std::uint64_t offset, std::uint64_t bytes, bool forget) {
  const std::uint64_t first = offset / options_.buffer_bytes;
  const std::uint64_t last = (offset + bytes - 1) / options_.buffer_bytes;
  for (const auto& buffer : buffers_) {
    if (buffer->block < first || buffer->block > last) continue;
    if (const int error = write_back(*buffer)) return error;
    if (forget) buffer->forget();
  }
  return 0;
}

// All of them, in file order; reports the first error.
int BufferedFile::write_back_all() {
  std::sort(buffers_.begin(), buffers_.end(),
            [](const auto& a, const auto& b) { return a->block < b->block; });
  int first = 0;
  for (const auto& buffer : buffers_) {
    const int error = write_back(*buffer);
    if (first == 0) first = error;
  }
  return first;
}

// Checks whether the file has grown below; then drops what was loaded at its old end.
std::int64_t BufferedFile::refresh_size() {
  const std::int64_t below = below_.size_bytes();
  if (below < 0) return below;
  const auto size = static_cast<std::uint64_t>(below);
  if (!size_known_ || size > size_) {
    const std::uint64_t end = size_known_ ? size_ / options_.buffer_bytes : 0;
    for (const auto& buffer : buffers_)
      if (buffer->block >= end && buffer->dirty.empty()) buffer->is_loaded = false;
    size_ = std::max(size_, size);
    size_known_ = true;
  }
  return static_cast<std::int64_t>(size_);
}

int BufferedFile::flush() {
  const std::lock_guard lock(mutex_);
  return write_back_all();
}

int BufferedFile::resize(std::uint64_t size_bytes) {
  const std::lock_guard lock(mutex_);
  if (const int error = write_back_all()) return error;
  if (const int error = below_.resize(size_bytes)) return -error;
  for (const auto& buffer : buffers_)
    buffer->forget();
  size_ = size_bytes;
  size_known_ = true;
  return 0;
}

int BufferedFile::drop() {
  const std::lock_guard lock(mutex_);
  if (const int error = write_back_all()) return error;
  for (const auto& buffer : buffers_)
    buffer->forget();
  size_known_ = false;
  size_ = 0;
  return 0;
}

void BufferedFile::discard() {
  const std::lock_guard lock(mutex_);
  for (const auto& buffer : buffers_)
    buffer->forget();
  size_known_ = false;
  size_ = 0;
}

std::int64_t BufferedFile::size_bytes() {
  const std::lock_guard lock(mutex_);
  return refresh_size();
}

bool BufferedFile::is_dirty() {
  const std::lock_guard lock(mutex_);
  return std::any_of(buffers_.begin(), buffers_.end(),
                     [](const auto& buffer) { return !buffer->dirty.empty(); });
}

BufferStatistics BufferedFile::statistics() {
  const std::lock_guard lock(mutex_);
  return statistics_;
}

}  // namespace ferry
