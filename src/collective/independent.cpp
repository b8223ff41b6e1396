#include "collective/independent.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <exception>
#include <memory>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include <ferry/byte_order.hpp>

#include "collective/extents.hpp"
#include "collective/fiber.hpp"
#include "collective/orders.hpp"

namespace ferry::collective {
namespace {

// Merges pieces that are contiguous in the file into one storage request.
class Requests {
 public:
  Requests(StorageFile& file, Batch& batch, storage::Kind kind)
      : file_(file), batch_(batch), kind_(kind) {}

  void add(std::int64_t offset, std::byte* data, std::int64_t bytes) {
    if (offset != offset_ + bytes_ || bytes_ + bytes > StorageFile::bytes_max) {
      send();
      offset_ = offset;
    }
    const auto length = static_cast<std::size_t>(bytes);
    if (!vectors_.empty() && end_of(vectors_.back()) == data) {
      vectors_.back().iov_len += length;
    } else {
      vectors_.push_back({data, length});
    }
    bytes_ += bytes;
    if (vectors_.size() == StorageFile::vectors_max) send();
  }
  void send() {
    if (bytes_ > 0) file_.start(batch_, kind_, offset_, vectors_);
    offset_ += bytes_;
    bytes_ = 0;
    vectors_.clear();
  }

 private:
  static std::byte* end_of(const iovec& vector) {
    return static_cast<std::byte*>(vector.iov_base) + vector.iov_len;
  }

  StorageFile& file_;
  Batch& batch_;
  storage::Kind kind_;
  std::vector<iovec> vectors_;
  std::int64_t offset_ = 0;
  std::int64_t bytes_ = 0;
};

void start_alone(StorageFile& file, Batch& batch, const RankRequest& request, storage::Kind kind) {
  Requests requests(file, batch, kind);
  Cursor in_file(request.view.map, request.view.displacement, request.stream);
  Extent piece;
  request.memory.for_each(0, request.bytes, [&](std::byte* data, std::int64_t bytes) {
    while (bytes > 0) {
      if (piece.bytes == 0) piece = in_file.next(StorageFile::bytes_max);
      const std::int64_t step = std::min(bytes, piece.bytes);
      requests.add(piece.offset, data, step);
      piece.offset += step;
      piece.bytes -= step;
      data += step;
      bytes -= step;
    }
  });
  requests.send();
}

// Small enough for a processor's cache between steps, large enough for a storage.
constexpr std::int64_t sieved_piece_bytes_max = 256 << 10;
constexpr std::int64_t pieces_at_once = 4;
// From this size on, a thread is worth starting.
constexpr std::int64_t thread_pieces_min = 32;

// A write converts each piece and then writes it, a read the reverse. With two CPUs, two threads
// work on different pieces at once. The calling thread transfers, and converts pieces it needs that
// are unclaimed: so a second thread without a CPU delays only the piece it holds.
//
// Pieces are claimed for conversion in order (claimed_), once their buffer is ready: for a read
// when it has been read (moved_), for a write when the previous piece in the buffer has been
// written. converted_ counts, per buffer, the pieces up to its last converted one.
class Converted {
 public:
  Converted(StorageFile& file, Phases& phases, const RankRequest& request, storage::Kind kind)
      : file_(file), phases_(phases), request_(request), kind_(kind) {}

  int transfer(bool has_cpus) {
    pieces_ = (request_.bytes + sieved_piece_bytes_max - 1) / sieved_piece_bytes_max;
    double pack_ns = 0;
    {
      const Helper helper(*this, has_cpus && pieces_ >= thread_pieces_min, pack_ns);
      for (std::int64_t piece = 0; piece <= pieces_; ++piece)
        move(piece);
      if (reads()) finish_converting(pieces_ - 1);
    }
    phases_.pack_ns += pack_ns;
    return error_;
  }

 private:
  // The second thread, where it is wanted and can be started. Ends with what it has claimed.
  class Helper {
   public:
    Helper(Converted& of, bool is_wanted, double& pack_ns) : of_(of) {
      try {
        if (is_wanted) thread_ = std::thread([&of, &pack_ns] { of.help(pack_ns); });
      } catch (const std::exception&) {  // this thread converts all
      }
      of_.has_helper_ = thread_.joinable();
    }
    ~Helper() {
      if (!thread_.joinable()) return;
      of_.claimed_.store(of_.pieces_);  // also where an exception ends the transfer before the end
      of_.moved_.store(of_.pieces_ + pieces_at_once);
      of_.moved_.notify_one();
      thread_.join();
    }
    Helper(const Helper&) = delete;
    Helper& operator=(const Helper&) = delete;

   private:
    Converted& of_;
    std::thread thread_;
  };

  struct Buffer {
    std::unique_ptr<std::byte[]> data{new std::byte[sieved_piece_bytes_max]};
    Batch batch;
  };

  bool reads() const { return kind_ == storage::Kind::read; }
  std::int64_t bytes_of(std::int64_t piece) const {
    return std::min(sieved_piece_bytes_max, request_.bytes - piece * sieved_piece_bytes_max);
  }
  Buffer& buffer_of(std::int64_t piece) {
    return buffers_[static_cast<std::size_t>(piece % pieces_at_once)];
  }
  std::atomic<std::int64_t>& converted_of(std::int64_t piece) {
    return converted_[static_cast<std::size_t>(piece % pieces_at_once)];
  }
  bool is_ready(std::int64_t piece, std::int64_t moved) const {
    return moved >= (reads() ? piece + 1 : piece - pieces_at_once + 1);
  }

  // The second thread.
  void help(double& pack_ns) {
    for (std::int64_t piece = claimed_.load(); piece < pieces_; piece = claimed_.load()) {
      const std::int64_t moved = moved_.load();
      if (!is_ready(piece, moved)) {
        moved_.wait(moved);
      } else if (claimed_.compare_exchange_strong(piece, piece + 1)) {
        convert(piece, pack_ns);
      }
    }
  }
  // Waits until this piece and all before it are converted, and acquires the results.
  void finish_converting(std::int64_t last) {
    for (std::int64_t piece = claimed_.load(); piece <= last; piece = claimed_.load())
      if (claimed_.compare_exchange_strong(piece, piece + 1)) convert(piece, phases_.pack_ns);
    for (std::int64_t piece = std::max<std::int64_t>(0, last - pieces_at_once + 1); piece <= last;
         ++piece) {
      std::atomic<std::int64_t>& converted = converted_of(piece);
      for (std::int64_t seen = converted.load(); seen <= piece; seen = converted.load())
        converted.wait(seen);
    }
  }

  // Starts the transfer of a piece and completes the previous one. After an error, starts nothing.
  void move(std::int64_t piece) {
    if (piece < pieces_) {
      finish_converting(reads() ? piece - pieces_at_once : piece);
      if (error_ == 0) start(piece);
    }
    if (piece == 0) return;
    {
      const Stopwatch stopwatch(phases_.file_io_ns);
      keep(error_, file_.finish(buffer_of(piece - 1).batch));
    }
    moved_.store(piece);
    moved_.notify_one();
    if (reads() && !has_helper_) finish_converting(piece - 1);
  }
  void start(std::int64_t piece) {
    const Stopwatch stopwatch(phases_.file_io_ns);
    const RankRequest part{request_.view, Memory(place_of(piece), dense_),
                           request_.stream + piece * sieved_piece_bytes_max, bytes_of(piece)};
    start_alone(file_, buffer_of(piece).batch, part, kind_);
    file_.flush();
  }
  void convert(std::int64_t piece, double& pack_ns) {
    {
      const Stopwatch stopwatch(pack_ns);
      const std::int64_t at = piece * sieved_piece_bytes_max;
      if (!reads()) {
        request_.memory.pack(at, bytes_of(piece), buffer_of(piece).data.get());
      } else if (reads_in_place(piece)) {
        swap_bytes(place_of(piece), static_cast<std::size_t>(bytes_of(piece)),
                   static_cast<std::size_t>(request_.memory.swapped_bytes()));
      } else {
        request_.memory.unpack(at, bytes_of(piece), buffer_of(piece).data.get());
      }
    }
    converted_of(piece).store(piece + 1);
    converted_of(piece).notify_one();
  }
  // Whole elements that are contiguous in user memory are read and swapped in place.
  bool reads_in_place(std::int64_t piece) const {
    return reads() && bytes_of(piece) % request_.memory.swapped_bytes() == 0 &&
           request_.memory.lies_together(piece * sieved_piece_bytes_max, bytes_of(piece));
  }
  std::byte* place_of(std::int64_t piece) {
    return reads_in_place(piece) ? request_.memory.at(piece * sieved_piece_bytes_max)
                                 : buffer_of(piece).data.get();
  }

  StorageFile& file_;
  Phases& phases_;
  const RankRequest& request_;
  storage::Kind kind_;
  const TypeMap dense_;
  std::array<Buffer, pieces_at_once> buffers_;
  std::int64_t pieces_ = 0;
  bool has_helper_ = false;
  std::atomic<std::int64_t> moved_{0};
  std::atomic<std::int64_t> claimed_{0};
  std::array<std::atomic<std::int64_t>, pieces_at_once> converted_{};
  int error_ = 0;
};

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
  Groups(const RankRequest& request, const Sieve& sieve)
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

// A function of its own: whoever goes on behind a pause may be another thread, with an errno of its
// own, and compilers keep the address of errno.
[[gnu::noinline]] int error_of_fcntl(int descriptor, int call, struct flock& lock) {
  return ::fcntl(descriptor, call, &lock) == 0 ? 0 : errno;
}

// Another transfer of this process may hold the range, and has to go on to leave it.
int set_lock(int descriptor, const Extent& range, short type) {
  struct flock lock {};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  lock.l_start = range.offset;
  lock.l_len = range.bytes;
  for (int call = F_OFD_SETLK;;) {
    const int error = error_of_fcntl(descriptor, call, lock);
    if (error == 0) return 0;
    if (error == EAGAIN || error == EACCES) {
      call = Orders::pause(true) ? F_OFD_SETLK : F_OFD_SETLKW;
    } else if (error != EINTR) {
      return error;
    }
  }
}

// A range that is locked until this ends, also by an exception: other ranks wait for it, so that a
// fiber does not pause meanwhile.
class HeldRange {
 public:
  HeldRange(const RangeLock& lock, const Extent& range, Phases& phases)
      : lock_(lock), range_(range) {
    const Stopwatch stopwatch(phases.wait_ns);
    error_ = lock.lock(range);
    Fiber::begin_undivided();
  }
  ~HeldRange() {
    if (error_ == 0) lock_.unlock(range_);
    Fiber::end_undivided();
  }
  HeldRange(const HeldRange&) = delete;
  HeldRange& operator=(const HeldRange&) = delete;
  int error() const { return error_; }

 private:
  const RangeLock& lock_;
  const Extent range_;
  int error_ = 0;
};

// Reads the contents of the holes: zeros behind the end of the file.
int read_holes(StorageFile& file, Buffer& buffer) {
  std::memset(buffer.data.get(), 0, static_cast<std::size_t>(buffer.group.span.bytes));
  start(file, buffer, storage::Kind::read);
  const int error = file.finish(buffer.batch);
  return error == ENODATA ? 0 : error;
}

}  // namespace

int transfer_alone(StorageFile& file, Phases& phases, const RankRequest& request,
                   storage::Kind kind, bool has_cpus) {
  if (request.bytes == 0) return 0;
  if (request.memory.converts()) return Converted(file, phases, request, kind).transfer(has_cpus);
  const Stopwatch stopwatch(phases.file_io_ns);
  if (request.bytes <= StorageFile::bytes_max && request.is_contiguous() &&
      request.memory.together(0, request.bytes)) {
    return file.move(kind, request.begin(), request.memory.at(0), request.bytes);
  }
  Batch batch;
  start_alone(file, batch, request, kind);
  return file.finish(batch);
}

std::unique_ptr<RangeLock> RangeLock::make(const std::string& path) {
  std::unique_ptr<RangeLock> made(new RangeLock);
  made->descriptor_ = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  if (made->descriptor_ < 0) made.reset();
  return made;
}

RangeLock::~RangeLock() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

int RangeLock::lock(const Extent& range) const {
  return set_lock(descriptor_, range, F_WRLCK);
}

void RangeLock::unlock(const Extent& range) const {
  set_lock(descriptor_, range, F_UNLCK);
}

int read_sieved(StorageFile& file, Phases& phases, const RankRequest& request, const Sieve& sieve) {
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
      keep(error, file.finish(buffer.batch));
    }
    const Stopwatch stopwatch(phases.pack_ns);
    for_each_piece(buffer, [&](std::int64_t stream, const std::byte* data, std::int64_t bytes) {
      request.memory.unpack(stream, bytes, data);
    });
  }
  return error;
}

int write_sieved(StorageFile& file, Phases& phases, const RankRequest& request, const Sieve& sieve,
                 const RangeLock& lock) {
  Groups groups(request, sieve);
  Buffer buffer;
  buffer.data = memory_for(sieve);
  while (groups.next(buffer.group)) {
    const HeldRange held(lock, buffer.group.span, phases);
    int error = held.error();
    if (error == 0 && buffer.group.has_holes()) {
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
    if (error != 0) return error;
  }
  return 0;
}

}  // namespace ferry::collective
