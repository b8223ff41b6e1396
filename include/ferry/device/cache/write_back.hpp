// Writes dirty ranges to storage: exactly what the program wrote, neighbours with one request.
//
// Three ways: now(), for a call that needs the frame or its ranges; flush(), a file's dirty pages
// with as many requests in flight as allowed; relieve(), some in the background while more pages
// are dirty than the low-water mark allows, waiting if that falls behind. No call waits for another
// storage's write-backs: a storage that hangs has a limited share of records, and others write
// without them.
#pragma once

#include <cerrno>
#include <cstdint>

#include <ferry/device/cache/frames.hpp>
#include <ferry/device/cache/layout.hpp>
#include <ferry/device/cache/transfers.hpp>
#include <ferry/device/copy.hpp>

namespace ferry::device::cache {

template <class Io>
class WriteBack {
 public:
  FERRY_DEVICE WriteBack(const View& view, const Frames& frames, const Transfers<Io>& transfers,
                         Io& io, Counters& counters, std::uint32_t group)
      : view_(view),
        frames_(frames),
        transfers_(transfers),
        io_(io),
        counters_(counters),
        group_(group) {}

  // Writes back the page, pinned by the caller, and the dirty ones right after it.
  FERRY_DEVICE std::int64_t now(std::uint32_t frame) {
    return transfers_.begin(frame, State::writing) ? finish(frame) : 0;
  }
  // For a writer whose range has no place in the page's list: ranges in flight may free some, else
  // all must be written. Returns 0 or the error.
  FERRY_DEVICE_CALL std::int64_t make_room(std::uint32_t frame) {
    if ((frames_.state(frame).load(acquire) & State::writing) == 0) return now(frame);
    transfers_.wait_while(frame, State::writing);
    return 0;
  }
  // The same once `writing` is set.
  FERRY_DEVICE_CALL std::int64_t finish(std::uint32_t frame) {
    const std::uint64_t key = frames_.key(frame);
    Inode& inode = view_.inode(inode_of(key));
    static_assert(sizeof(Work) <= work_bytes && work_bytes % cache_line_bytes == 0);
    Work& work = *reinterpret_cast<Work*>(view_.work(group_));
    work.begin();
    std::int64_t error = collect(work, frame, inode);
    while (error == 0 && work.count < run_max) {
      const std::uint32_t next = frames_.find(key + work.count);
      if (next == no_frame) break;
      if (!transfers_.try_begin_writing(next)) {
        frames_.unpin(next);
        break;
      }
      error = collect(work, next, inode);
    }
    if (error == 0) error = send(work, inode);
    if (error != 0) put_back(work, inode);
    for (std::uint32_t i = 0; i < work.count; ++i) {
      frames_.written_back(work.frames[i], work.ranges[i].count, inode);
      transfers_.end(work.frames[i], State::writing);
      if (i > 0) frames_.unpin(work.frames[i]);
    }
    return error;
  }

  // Writes back these pages of the file and waits for others' write-backs. Returns 0 if storage has
  // everything, else an error, which the inode counts. Stops at the first error: a file whose last
  // write-back failed gets one request, and nothing is sent that a full storage would refuse.
  FERRY_DEVICE_CALL std::int64_t flush(std::uint32_t inode, Pages pages, Flight::Kind kind) {
    Inode& file = view_.inode(inode);
    if (DeviceRef<std::uint64_t>(file.dirty_pages).load(acquire) == 0) return 0;
    std::int64_t error = 0;
    frames_.each_of(inode, pages, [&](std::uint32_t frame) {
      if (error == 0 && failing(file) != 0) error = write_dirty(frame);
      if (error == 0) begin(frame, kind);
    });
    // A page dirty now was written meanwhile, or its flight failed: then the error counts.
    frames_.each_of(inode, pages, [&](std::uint32_t frame) {
      if (error == 0) {
        error = write_dirty(frame);
      } else {
        transfers_.wait_while(frame, State::writing);
      }
    });
    return error;
  }

  // Writes up to a staging area of a call's bytes: returns the number, or the error.
  FERRY_DEVICE_CALL std::int64_t write_through(Inode& inode, const unsigned char* from,
                                               std::uint64_t bytes, std::uint64_t at) {
    Piece piece{io_.staging(), bytes < io_.staging_bytes() ? bytes : io_.staging_bytes()};
    copy_alone(piece.data, from, piece.bytes);
    const DeviceRef<std::int32_t> write_handle(inode.write_handle);
    std::int32_t handle;
    std::int64_t got;
    do {  // as in write_pieces()
      handle = write_handle.load(acquire);
      got = io_.write(handle, &piece, 1, static_cast<std::int64_t>(at));
    } while (got == -EBADF && write_handle.load(acquire) != handle);
    if (got == 0) return -EIO;
    if (got > 0) Frames::note_result(inode, 0);  // there is space
    return got;
  }

  // Call it after this page became dirty, with nothing pinned.
  FERRY_DEVICE void relieve(std::uint64_t key) {
    const std::uint64_t dirty = DeviceRef<std::uint64_t>(view_.shared().dirty_pages).load(relaxed);
    if (dirty > view_.layout.dirty_low) relieve(key, dirty);
  }
  // Starts to write back a page, pinned by the caller, whose storage it does not want to wait for.
  FERRY_DEVICE void begin_unawaited(std::uint32_t frame) {
    if (transfers_.may_claim(inode_of(frames_.key(frame)))) start(frame, Flight::writes);
  }

 private:
  enum class Start : std::uint8_t { started, all_under_way, not_simple };
  static constexpr std::uint32_t looks_per_relief = 32;

  FERRY_DEVICE_CALL void relieve(std::uint64_t key, std::uint64_t dirty) {
    const std::uint32_t frames = view_.layout.geometry.frames;
    DeviceRef<std::uint32_t> hand(view_.shared().flush_hand);
    for (std::uint32_t looks = 0; looks < looks_per_relief; ++looks) {
      const std::uint32_t frame = hand.fetch_add(1, relaxed) % frames;
      constexpr std::uint64_t busy =
          State::filling | State::writing | State::orphan | State::taken | State::writers;
      const std::uint64_t now = frames_.state(frame).load(acquire);
      if ((now & busy) != 0 || (now & State::dirty) == 0) continue;
      const std::uint64_t found = frames_.key(frame);
      if (failing(view_.inode(inode_of(found))) != 0 || !transfers_.may_claim(inode_of(found)) ||
          !frames_.pin(frame, found))
        continue;
      const Start result = start(frame, Flight::writes);
      frames_.unpin(frame);
      if (result != Start::not_simple) break;
    }
    if (dirty <= view_.layout.dirty_high) return;
    if (!transfers_.attend_some_write_back(group_, inode_of(key))) write_back_own(key);
  }
  // There are too many dirty pages, and none of this storage's is in flight.
  FERRY_DEVICE void write_back_own(std::uint64_t key) {
    const std::uint32_t frame = frames_.find(key);
    if (frame == no_frame) return;
    const bool dirty = (frames_.state(frame).load(acquire) & State::dirty) != 0 &&
                       failing(view_.inode(inode_of(key))) == 0;
    if (dirty && start(frame, Flight::writes) != Start::started) now(frame);
    frames_.unpin(frame);
  }

  // For flush(): waits until no party writes the page back, then does so if it is dirty. Checks
  // both at once: a page that is clean because it is in flight must be waited for.
  FERRY_DEVICE std::int64_t write_dirty(std::uint32_t frame) {
    const std::uint64_t state = transfers_.wait_while(frame, State::writing);
    return (state & State::dirty) != 0 ? now(frame) : 0;
  }

  // For flush(): starts what is possible, and leaves the rest.
  FERRY_DEVICE_CALL void begin(std::uint32_t frame, Flight::Kind kind) {
    while (view_.layout.geometry.flights > 0) {
      const std::uint64_t state = frames_.state(frame).load(acquire);
      if ((state & State::dirty) == 0 || (state & State::writing) != 0) return;
      if (start(frame, kind) != Start::all_under_way) return;
      if (!transfers_.attend_some_write_back(group_, inode_of(frames_.key(frame)))) return;
    }
  }

  // Starts a flight that writes the page, pinned by the caller, and those right after it that
  // continue it. Only pages with one range: others take several requests.
  FERRY_DEVICE_CALL Start start(std::uint32_t frame, Flight::Kind kind) {
    const std::uint64_t key = frames_.key(frame);
    const std::uint32_t index = transfers_.claim_flight(group_, inode_of(key));
    if (index == no_flight) return Start::all_under_way;
    Flight& flight = view_.flight(index);
    Piece pieces[run_max];
    flight.count = 0;
    flight.bytes = 0;
    std::uint32_t from = Frames::anywhere;
    for (std::uint32_t next = frame;;) {
      // The caller has pinned the first; a flight has its own pins (X2).
      if (flight.count == 0 && !frames_.pin(next, key)) break;
      Range range;
      if (!take_only_range(next, from, range)) {
        frames_.unpin(next);
        break;
      }
      pieces[flight.count] = Piece{view_.page(next) + range.begin, range.end - range.begin};
      if (flight.count == 0)
        flight.offset = (page_of(key) << view_.layout.page_shift) + range.begin;
      flight.frames[flight.count] = next;
      flight.ranges[flight.count++] = range;
      flight.bytes += range.end - range.begin;
      if (range.end != view_.page_bytes() || flight.count == run_max) break;
      from = 0;
      next = frames_.find(key + flight.count);
      if (next == no_frame) break;
    }
    if (flight.count == 0) {
      transfers_.give_back_flight(index);
      return Start::not_simple;
    }
    flight.inode = inode_of(key);
    DeviceRef<std::uint32_t>(flight.kind).store(kind, relaxed);
    const std::int32_t handle =
        DeviceRef<std::int32_t>(view_.inode(flight.inode).write_handle).load(acquire);
    transfers_.start(index, handle, pieces, merge(pieces, flight.count));
    return Start::started;
  }

  // Sets `writing` and takes the page's range, if it is the only one.
  FERRY_DEVICE bool take_only_range(std::uint32_t frame, std::uint32_t begin, Range& range) {
    if (!transfers_.try_begin_writing(frame)) return false;
    if (frames_.take_only_range(frame, begin, range)) return true;
    transfers_.end(frame, State::writing);
    return false;
  }

  // Ranges being written, in file order. One list per group, not on the stack: only finish() uses
  // it, without recursion.
  struct Work {
    std::uint32_t frames[run_max];
    Ranges ranges[run_max];
    std::uint32_t count;
    Piece pieces[run_max];
    std::uint32_t piece_count;
    std::uint32_t piece_page;   // the page of the first piece
    std::uint32_t piece_range;  // its range
    std::uint64_t offset;       // of the first piece
    std::uint64_t bytes;

    FERRY_DEVICE void begin() {
      count = 0;
      piece_count = 0;
      bytes = 0;
    }
  };

  // Takes the page's ranges (F3); first sends pieces that do not continue them. An error ends it,
  // and put_back() must follow.
  FERRY_DEVICE std::int64_t collect(Work& work, std::uint32_t frame, Inode& inode) {
    const std::uint32_t index = work.count++;
    work.frames[index] = frame;
    work.ranges[index] = frames_.take_ranges(frame);
    const std::uint64_t start = page_of(frames_.key(frame)) << view_.layout.page_shift;
    for (std::uint32_t i = 0; i < work.ranges[index].count; ++i) {
      const Range range = work.ranges[index].list[i];
      if (work.piece_count > 0 && work.offset + work.bytes != start + range.begin) {
        if (const std::int64_t error = send(work, inode); error != 0) return error;
      }
      if (work.piece_count == 0) {
        work.offset = start + range.begin;
        work.piece_page = index;
        work.piece_range = i;
      }
      work.pieces[work.piece_count++] =
          Piece{view_.page(frame) + range.begin, range.end - range.begin};
      work.bytes += range.end - range.begin;
    }
    return 0;
  }

  // Writes all pieces and removes them: returns their bytes, or the error that ended it.
  FERRY_DEVICE std::int64_t write_pieces(Work& work, Inode& inode) {
    Piece* pieces = work.pieces;
    std::uint32_t count = work.piece_count;
    std::uint64_t done = 0;
    for (;;) {
      DeviceRef<std::int32_t> write_handle(inode.write_handle);
      const std::int32_t handle = write_handle.load(acquire);
      const std::int64_t got =
          io_.write(handle, pieces, count, static_cast<std::int64_t>(work.offset + done));
      // A handle may be closing; then the inode has had another one before, or has none.
      if (got == -EBADF && write_handle.load(acquire) != handle) continue;
      if (got < 0) return got;
      if (got == 0) return -EIO;
      // Continues short writes, to find their cause.
      done += static_cast<std::uint64_t>(got);
      if (skip(pieces, count, static_cast<std::uint64_t>(got)) == 0)
        return static_cast<std::int64_t>(done);
    }
  }

  FERRY_DEVICE_CALL std::int64_t send(Work& work, Inode& inode) {
    if (work.piece_count == 0) return 0;
    const std::int64_t got = write_pieces(work, inode);
    const std::int64_t error = got < 0 ? got : 0;  // never short
    Frames::note_result(inode, error);
    if (error != 0) return error;
    Frames::add_one(counters_.write_backs);
    Frames::add_one(counters_.write_back_bytes, work.bytes);
    work.piece_count = 0;
    work.bytes = 0;
    return 0;
  }

  // After an error: everything from the first piece on, unsent or unwritten, is dirty again.
  FERRY_DEVICE void put_back(const Work& work, Inode& inode) {
    std::uint32_t range = work.piece_range;
    for (std::uint32_t i = work.piece_page; i < work.count; ++i) {
      for (; range < work.ranges[i].count; ++range)
        frames_.put_back_range(work.frames[i], work.ranges[i].list[range], inode);
      range = 0;
    }
  }

  const View& view_;
  const Frames& frames_;
  const Transfers<Io>& transfers_;
  Io& io_;
  Counters& counters_;
  std::uint32_t group_;
};

}  // namespace ferry::device::cache
