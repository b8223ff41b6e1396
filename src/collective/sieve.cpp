#include "collective/sieve.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "collective/grid.hpp"

namespace ferry::collective {
namespace {

// Pieces moved by one request, ascending.
struct Group {
  Extent span;
  std::vector<Extent> pieces;
  std::int64_t stream = 0;  // position of the first piece in the memory's stream
  bool has_holes() const { return pieces.size() > 1; }
};

// Splits a request into groups.
class Groups {
 public:
  Groups(const Request& request, const Sieve& sieve)
      : sieve_(sieve),
        cursor_(request.view.map, request.view.displacement, request.stream),
        left_(request.bytes) {
    advance();
  }

  bool next(Group& group) {
    if (piece_.bytes == 0) return false;
    group.span = piece_;
    group.pieces.assign(1, piece_);
    group.stream = stream_;
    for (advance(); piece_.bytes > 0; advance()) {
      const std::int64_t end = group.span.offset + group.span.bytes;
      const bool near = piece_.offset >= end && piece_.offset - end <= sieve_.hole_bytes_max;
      if (!near || piece_.offset + piece_.bytes - group.span.offset > sieve_.buffer_bytes) break;
      append(group.pieces, piece_);
      group.span.bytes = piece_.offset + piece_.bytes - group.span.offset;
    }
    return true;
  }

 private:
  // The next piece; one of 0 bytes at the end.
  void advance() {
    stream_ += piece_.bytes;
    piece_ = left_ > 0 ? cursor_.next(std::min(left_, sieve_.buffer_bytes)) : Extent{};
    left_ -= piece_.bytes;
  }

  const Sieve& sieve_;
  Cursor cursor_;
  std::int64_t left_;
  Extent piece_;
  std::int64_t stream_ = 0;  // of the piece
};

struct Buffer {
  std::unique_ptr<std::byte[]> data;
  Batch batch;
  Group group;
};

void start(StorageFile& file, Buffer& buffer, storage::Kind kind) {
  const iovec vector{buffer.data.get(), static_cast<std::size_t>(buffer.group.span.bytes)};
  file.start(buffer.batch, kind, buffer.group.span.offset, std::span(&vector, 1));
  file.flush();
}

// Calls use(stream, data, bytes) for each piece of the group in the buffer.
template <class Use>
void for_each_piece(const Buffer& buffer, Use&& use) {
  std::int64_t stream = buffer.group.stream;
  for (const Extent& piece : buffer.group.pieces) {
    use(stream, buffer.data.get() + (piece.offset - buffer.group.span.offset), piece.bytes);
    stream += piece.bytes;
  }
}

std::unique_ptr<std::byte[]> memory_for(const Sieve& sieve) {
  return std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(sieve.buffer_bytes));
}

int set_lock(int descriptor, const Extent& range, short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = range.offset;
  lock.l_len = range.bytes;
  while (::fcntl(descriptor, F_OFD_SETLKW, &lock) != 0)
    if (errno != EINTR) return errno;
  return 0;
}

// Reads the contents of the holes: zeros behind the end of the file.
int read_holes(StorageFile& file, Buffer& buffer) {
  std::memset(buffer.data.get(), 0, static_cast<std::size_t>(buffer.group.span.bytes));
  start(file, buffer, storage::Kind::read);
  const int error = file.finish(buffer.batch);
  return error == ENODATA ? 0 : error;
}

}  // namespace

std::unique_ptr<RangeLock> RangeLock::make(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  return std::unique_ptr<RangeLock>(descriptor < 0 ? nullptr : new RangeLock(descriptor));
}

RangeLock::~RangeLock() {
  ::close(descriptor_);
}

int RangeLock::lock(const Extent& range) const {
  return set_lock(descriptor_, range, F_WRLCK);
}

void RangeLock::unlock(const Extent& range) const {
  set_lock(descriptor_, range, F_UNLCK);
}

int read_sieved(StorageFile& file, Phases& phases, const Request& request, const Sieve& sieve) {
  Groups groups(request, sieve);
  std::array<Buffer, 2> buffers;
  int error = 0;
  const auto begin = [&](Buffer& buffer) {
    const Stopwatch stopwatch(phases.file_io_ns);
    if (!groups.next(buffer.group)) return false;
    if (!buffer.data) buffer.data = memory_for(sieve);
    start(file, buffer, storage::Kind::read);
    return true;
  };
  bool more = begin(buffers[0]);
  for (std::size_t turn = 0; more; ++turn) {
    Buffer& buffer = buffers[turn % 2];
    more = begin(buffers[(turn + 1) % 2]);
    {
      const Stopwatch stopwatch(phases.file_io_ns);
      const int failed = file.finish(buffer.batch);
      if (error == 0) error = failed;
    }
    const Stopwatch stopwatch(phases.pack_ns);
    for_each_piece(buffer, [&](std::int64_t stream, const std::byte* data, std::int64_t bytes) {
      request.memory.unpack(stream, bytes, data);
    });
  }
  return error;
}

int write_sieved(StorageFile& file, Phases& phases, const Request& request, const Sieve& sieve,
                 const RangeLock& lock) {
  Groups groups(request, sieve);
  Buffer buffer;
  buffer.data = memory_for(sieve);
  while (groups.next(buffer.group)) {
    int error = 0;
    {
      const Stopwatch stopwatch(phases.wait_ns);
      error = lock.lock(buffer.group.span);
    }
    if (error != 0) return error;
    if (buffer.group.has_holes()) {
      const Stopwatch stopwatch(phases.file_io_ns);
      error = read_holes(file, buffer);
    }
    if (error == 0) {
      const Stopwatch stopwatch(phases.pack_ns);
      for_each_piece(buffer, [&](std::int64_t stream, std::byte* data, std::int64_t bytes) {
        request.memory.pack(stream, bytes, data);
      });
    }
    if (error == 0) {
      const Stopwatch stopwatch(phases.file_io_ns);
      start(file, buffer, storage::Kind::write);
      error = file.finish(buffer.batch);
    }
    lock.unlock(buffer.group.span);
    if (error != 0) return error;
  }
  return 0;
}

}  // namespace ferry::collective
