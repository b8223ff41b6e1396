// Reads and writes files through the page cache, on the calling core.
//
// A hit finds the page, pins it, copies, and unpins. A miss takes frames for a run of absent pages,
// enters them as `filling` and reads them with one request; whoever else wants one of them waits
// for that. A write to an absent page reads nothing: the page keeps the ranges that were written.
// Dirty ranges are written exactly as they are, neighbours with one request.
//
// Calls that change the file past the cache (truncations, appends, writes of placement `host`) are
// *outside* calls. While one is under way cached writes to that file wait, and a fill that ran
// beside one is thrown away.
//
// Errors are negative errno values. What a write-back reports is kept with the inode until a flush.
#pragma once

#include <cerrno>
#include <cstdint>

#include <ferry/device/cache/frames.hpp>
#include <ferry/device/cache/layout.hpp>

namespace ferry::device::cache {

// A piece of memory of one request.
struct Piece {
  unsigned char* data = nullptr;
  std::uint64_t bytes = 0;
};

// Pages of one request at most.
inline constexpr std::uint32_t run_max = 32;

// `Io` reaches the storage, for the calling group:
//   int64_t read(int handle, const Piece*, uint32_t count, int64_t offset)    bytes, short at the
//   end int64_t write(int handle, const Piece*, uint32_t count, int64_t offset)   bytes
// One object per group, used by its leader; any number of them share a cache.
template <class Io>
class PageCache {
 public:
  FERRY_DEVICE PageCache(const View& view, const HostHooks& hooks, Io& io, std::uint32_t group)
      : view_(view), frames_(view, hooks), io_(io), counters_(view.counters(group)) {}

  FERRY_DEVICE std::uint64_t size(std::uint32_t inode) const {
    return DeviceRef<std::uint64_t>(view_.inode(inode).size_bytes).load(acquire);
  }

  // `handle` may read.
  FERRY_DEVICE_CALL std::int64_t read(std::uint32_t inode, std::int32_t handle, void* to,
                                      std::uint64_t bytes, std::uint64_t offset) {
    std::uint64_t done = 0;
    std::uint64_t counted = 0;  // pages before this one are counted as missed
    while (done < bytes) {
      const std::uint64_t at = offset + done;
      const std::uint64_t end = size(inode);
      if (at >= end) break;
      const std::uint64_t left = bytes - done < end - at ? bytes - done : end - at;
      const std::uint64_t page = at >> view_.layout.page_shift;
      const Range range = range_of(at, left);
      // What this call brought in itself is not used again yet: a scan must not look like a habit.
      std::uint32_t frame = frames_.find(key_of(inode, page), page >= counted);
      std::int64_t error = 0;
      if (frame == no_frame) {
        const std::uint64_t last = (at + left - 1) >> view_.layout.page_shift;
        error = fill(inode, handle, page, last - page + 1, frame, counted);
      } else if (page >= counted) {
        Frames::add_one(counters_.hits);
      }
      if (error == 0) {
        bool held = false;
        error = make_readable(frame, handle, range, held);
        if (error == 0) {
          __builtin_memcpy(static_cast<unsigned char*>(to) + done, view_.page(frame) + range.begin,
                           range.end - range.begin);
          done += range.end - range.begin;
        }
        if (held) frames_.end_writing_to(frame);
        frames_.unpin(frame);
      }
      if (error != 0 && error != again) return done > 0 ? static_cast<std::int64_t>(done) : error;
    }
    return static_cast<std::int64_t>(done);
  }

  // The inode has a handle that may write.
  FERRY_DEVICE_CALL std::int64_t write(std::uint32_t inode, const void* from, std::uint64_t bytes,
                                       std::uint64_t offset) {
    std::uint64_t done = 0;
    while (done < bytes) {
      const std::uint64_t at = offset + done;
      const Range range = range_of(at, bytes - done);
      const std::int64_t error = write_page(inode, at >> view_.layout.page_shift, range,
                                            static_cast<const unsigned char*>(from) + done);
      if (error == again) continue;
      if (error != 0) return done > 0 ? static_cast<std::int64_t>(done) : error;
      done += range.end - range.begin;
    }
    return static_cast<std::int64_t>(done);
  }

  // Writes back what is dirty and waits for what others write back just now. 0 or the last error of
  // these; errors of earlier write-backs are in Inode::write_error.
  FERRY_DEVICE_CALL std::int64_t flush(std::uint32_t inode) {
    if (DeviceRef<std::uint64_t>(view_.inode(inode).dirty_pages).load(acquire) == 0) return 0;
    std::int64_t error = 0;
    each_frame_of(inode, [&](std::uint32_t frame) {
      frames_.wait_while(frame, State::writing);
      if ((frames_.state(frame).load(acquire) & State::dirty) == 0) return;
      const std::int64_t result = write_back(frame);
      if (result != 0) error = result;
    });
    return error;
  }

  // ---- outside calls ---------------------------------------------------------------------------

  // Between these two no cached write to the file is under way, and none begins. `flush()` in
  // between leaves nothing dirty, then. Outside calls take turns.
  FERRY_DEVICE_CALL void begin_outside(std::uint32_t inode) {
    DeviceRef<std::uint32_t> active(view_.inode(inode).outside_active);
    std::uint32_t none = 0;
    // seq_cst: see write_page().
    while (!active.compare_exchange_weak(none, 1, seq_cst, relaxed)) {
      none = 0;
      frames_.yield();
    }
    DeviceRef<std::uint32_t>(view_.inode(inode).outside_count).fetch_add(1, seq_cst);
    each_frame_of(inode, [&](std::uint32_t frame) {
      while ((frames_.state(frame).load(seq_cst) & State::writers) != 0)
        frames_.yield();
    });
  }
  FERRY_DEVICE void end_outside(std::uint32_t inode) {
    DeviceRef<std::uint32_t>(view_.inode(inode).outside_active).store(0, seq_cst);
  }

  // The file now holds `bytes` at `offset`, put there by an outside call after a flush: cached
  // pages follow.
  FERRY_DEVICE_CALL void update(std::uint32_t inode, const void* from, std::uint64_t bytes,
                                std::uint64_t offset) {
    for (std::uint64_t done = 0; done < bytes;) {
      const std::uint64_t at = offset + done;
      const Range range = range_of(at, bytes - done);
      const std::uint32_t frame = frames_.find(key_of(inode, at >> view_.layout.page_shift));
      if (frame != no_frame) {
        // A page that is not valid has nothing dirty, so it reads all of this from the storage.
        if ((frames_.wait_while(frame, State::filling) & State::valid) != 0) {
          __builtin_memcpy(view_.page(frame) + range.begin,
                           static_cast<const unsigned char*>(from) + done, range.end - range.begin);
        }
        frames_.unpin(frame);
      }
      done += range.end - range.begin;
    }
    grow(inode, offset + bytes);
  }

  // The file was cut or extended to `size` by an outside call, after a flush: pages behind its end
  // are dropped, with what is dirty in them because it could not be written.
  FERRY_DEVICE_CALL void resize(std::uint32_t inode, std::uint64_t size) {
    each_frame_of(inode, [&](std::uint32_t frame) {
      const std::uint64_t start = page_of(frames_.key(frame)) << view_.layout.page_shift;
      if (start + view_.page_bytes() <= size) return;
      if (start >= size) return drop_page(frame, inode);
      if (!frames_.begin_transfer(frame, State::filling)) return;
      const auto end = static_cast<std::uint32_t>(size - start);
      frames_.cut_ranges(frame, end, view_.inode(inode));
      __builtin_memset(view_.page(frame) + end, 0, view_.page_bytes() - end);
      frames_.end_transfer(frame, State::filling);
    });
    DeviceRef<std::uint64_t>(view_.inode(inode).size_bytes).store(size, release);
  }

  // Drops every page of the file; what is dirty is lost. During an outside call.
  FERRY_DEVICE_CALL void drop(std::uint32_t inode) {
    each_frame_of(inode, [&](std::uint32_t frame) { drop_page(frame, inode); });
  }

 private:
  static constexpr std::int64_t again = 1;
  static constexpr std::uint32_t fruitless_max = 64;

  // The part of [at, at + bytes) that lies in the page of `at`.
  FERRY_DEVICE Range range_of(std::uint64_t at, std::uint64_t bytes) const {
    const auto begin = static_cast<std::uint32_t>(at & (view_.page_bytes() - 1));
    const std::uint64_t room = view_.page_bytes() - begin;
    return Range{begin, begin + static_cast<std::uint32_t>(bytes < room ? bytes : room)};
  }

  FERRY_DEVICE void grow(std::uint32_t inode, std::uint64_t end) const {
    DeviceRef<std::uint64_t> size(view_.inode(inode).size_bytes);
    std::uint64_t now = size.load(relaxed);
    while (now < end && !size.compare_exchange_weak(now, end, release, relaxed)) {
    }
  }

  // Runs `work(frame)` for every frame that holds a page of the file, pinned.
  template <class Work>
  FERRY_DEVICE void each_frame_of(std::uint32_t inode, Work work) {
    for (std::uint32_t frame = 0; frame < view_.layout.geometry.frames; ++frame) {
      const std::uint64_t key = frames_.key(frame);
      if (inode_of(key) != inode) continue;
      if ((frames_.state(frame).load(seq_cst) & (State::orphan | State::taken)) != 0) continue;
      if (!frames_.pin(frame, key)) continue;
      work(frame);
      frames_.unpin(frame);
    }
  }

  FERRY_DEVICE void drop_page(std::uint32_t frame, std::uint32_t inode) {
    frames_.make_orphan(frame);
    // A writer that came after begin_outside() has not looked for the call yet, perhaps. It must do
    // so while the call is under way, or it would write to the orphan.
    while ((frames_.state(frame).load(acquire) & State::writers) != 0)
      frames_.yield();
    frames_.wait_while(frame, State::filling | State::writing);
    frames_.cut_ranges(frame, 0, view_.inode(inode));
  }

  // A frame for a page of `inode`. Evicting may have to write back first. no_frame: `error` is the
  // error of that, or 0 where all frames are in use just now.
  FERRY_DEVICE_CALL std::uint32_t take(std::int64_t& error) {
    return frames_.take(counters_, [&](std::uint32_t frame) {
      if (!frames_.pin(frame, frames_.key(frame))) return;
      if (frames_.try_write_back(frame)) {
        const std::int64_t result = write_back_run(frame);
        if (result != 0) error = result;
      }
      // The hand is here: looking after the page is no use of it.
      frames_.state(frame).fetch_and(~State::touched, relaxed);
      frames_.unpin(frame);
    });
  }

  // ---- filling ---------------------------------------------------------------------------------

  // Waits until no outside call is under way; returns their number so far.
  FERRY_DEVICE std::uint32_t before_fill(std::uint32_t inode) const {
    for (;;) {
      const std::uint32_t count =
          DeviceRef<std::uint32_t>(view_.inode(inode).outside_count).load(seq_cst);
      if (DeviceRef<std::uint32_t>(view_.inode(inode).outside_active).load(seq_cst) == 0) {
        return count;
      }
      frames_.yield();
    }
  }
  FERRY_DEVICE bool outdated(std::uint32_t inode, std::uint32_t count) const {
    return DeviceRef<std::uint32_t>(view_.inode(inode).outside_active).load(seq_cst) != 0 ||
           DeviceRef<std::uint32_t>(view_.inode(inode).outside_count).load(seq_cst) != count;
  }

  // Fills `page`, and of the `wanted` pages from there those that are absent and in one run. On 0,
  // `first` is the frame of `page`, pinned and valid.
  FERRY_DEVICE_CALL std::int64_t fill(std::uint32_t inode, std::int32_t handle, std::uint64_t page,
                                      std::uint64_t wanted, std::uint32_t& first,
                                      std::uint64_t& counted) {
    const std::uint32_t outside = before_fill(inode);
    std::uint32_t run[run_max];
    std::uint32_t count = 0;
    std::int64_t error = 0;
    // Half the cache at most, so that threads with large reads leave each other some frames.
    const std::uint64_t half = (std::uint64_t{view_.layout.geometry.frames} + 1) / 2;
    const std::uint64_t limit = wanted < half ? wanted : half;
    while (count < run_max && count < limit) {
      const std::uint32_t frame = take(error);
      if (frame == no_frame) break;
      if (!frames_.insert(key_of(inode, page + count), frame, State::filling)) {
        frames_.give_back(frame);
        break;
      }
      run[count++] = frame;
    }
    if (count == 0) return give_way(error);
    fruitless_ = 0;
    if (page + count > counted) counted = page + count;
    Frames::add_one(counters_.misses, count);
    error = read_run(handle, page, run, count);
    // Whoever waits for an outdated page looks again, and finds it gone.
    if (error == 0 && outdated(inode, outside)) error = again;
    for (std::uint32_t i = 0; i < count; ++i) {
      if (error != 0) frames_.make_orphan(run[i]);
      frames_.end_transfer(run[i], State::filling, error == 0 ? State::valid : 0);
      if (error != 0 || i > 0) frames_.unpin(run[i]);
    }
    first = run[0];
    return error;
  }

  // Somebody else entered the page, or every frame is in use: look again, unless write-backs keep
  // failing.
  FERRY_DEVICE std::int64_t give_way(std::int64_t error) {
    if (error != 0 && ++fruitless_ > fruitless_max) {
      fruitless_ = 0;
      return error;
    }
    frames_.yield();
    return again;
  }

  FERRY_DEVICE_CALL std::int64_t read_run(std::int32_t handle, std::uint64_t page,
                                          const std::uint32_t* run, std::uint32_t count) {
    Piece pieces[run_max];
    for (std::uint32_t i = 0; i < count; ++i)
      pieces[i] = Piece{view_.page(run[i]), view_.page_bytes()};
    const std::int64_t got = read_pieces(inode_of(frames_.key(run[0])), handle, pieces, count,
                                         page << view_.layout.page_shift);
    if (got < 0) return got;
    // Behind the end of the file there are zeros, should it grow.
    for (std::uint64_t at = static_cast<std::uint64_t>(got);
         at < std::uint64_t{count} << view_.layout.page_shift;) {
      const Range rest = range_of(at, view_.page_bytes());
      __builtin_memset(view_.page(run[at >> view_.layout.page_shift]) + rest.begin, 0,
                       rest.end - rest.begin);
      at += rest.end - rest.begin;
    }
    return 0;
  }

  // 0: the range may be read while the pin lasts. `again`: look for the page once more. `held`: the
  // page is not valid, and counts its reader as a writer so that nobody fills it meanwhile.
  FERRY_DEVICE std::int64_t make_readable(std::uint32_t frame, std::int32_t handle, Range range,
                                          bool& held) {
    for (;;) {
      std::uint64_t now = frames_.state(frame).load(acquire);
      if ((now & State::filling) != 0) {
        Frames::add_one(counters_.waits);
        now = frames_.wait_while(frame, State::filling);
      }
      if ((now & State::orphan) != 0) return again;
      if ((now & State::valid) != 0) return 0;
      if (!frames_.begin_writing_to(frame)) return again;
      held = frames_.has_range(frame, range);
      if (held) return 0;
      frames_.end_writing_to(frame);
      const std::int64_t error = complete(frame, handle);
      if (error != 0) return error;
    }
  }

  // Reads what lies between the written ranges.
  FERRY_DEVICE_CALL std::int64_t complete(std::uint32_t frame, std::int32_t handle) {
    const std::uint32_t inode = inode_of(frames_.key(frame));
    const std::uint64_t start = page_of(frames_.key(frame)) << view_.layout.page_shift;
    const std::uint32_t outside = before_fill(inode);
    if (!frames_.begin_transfer(frame, State::filling)) return again;
    if ((frames_.state(frame).load(acquire) & State::valid) != 0) {
      // Another reader has done so meanwhile, and more may be reading what it brought.
      frames_.end_transfer(frame, State::filling);
      return 0;
    }
    const Ranges there = frames_.ranges(frame);  // F2: nobody adds one now
    std::int64_t error = 0;
    std::uint32_t at = 0;
    for (std::uint32_t i = 0; i <= there.count && error == 0; ++i) {
      const std::uint32_t end = i < there.count ? there.list[i].begin : view_.page_bytes();
      if (at < end) error = read_gap(handle, frame, start, Range{at, end});
      if (i < there.count) at = there.list[i].end;
    }
    const bool usable = error == 0 && !outdated(inode, outside);
    frames_.end_transfer(frame, State::filling, usable ? State::valid : 0);
    return error;
  }

  FERRY_DEVICE std::int64_t read_gap(std::int32_t handle, std::uint32_t frame, std::uint64_t start,
                                     Range gap) {
    Piece piece{view_.page(frame) + gap.begin, gap.end - gap.begin};
    const std::int64_t got =
        read_pieces(inode_of(frames_.key(frame)), handle, &piece, 1, start + gap.begin);
    if (got < 0) return got;
    const std::uint64_t missing = gap.end - gap.begin - static_cast<std::uint64_t>(got);
    __builtin_memset(view_.page(frame) + gap.end - missing, 0, missing);
    return 0;
  }

  // Reads up to the end of the file: bytes, or an error. What is short before that is asked for
  // once more, so that an error in the middle is never taken for the end. Uses up `pieces`.
  FERRY_DEVICE_CALL std::int64_t read_pieces(std::uint32_t inode, std::int32_t handle,
                                             Piece* pieces, std::uint32_t count,
                                             std::uint64_t offset) {
    std::int64_t total = 0;
    for (;;) {
      const std::uint64_t at = offset + static_cast<std::uint64_t>(total);
      const std::int64_t got = io_.read(handle, pieces, count, static_cast<std::int64_t>(at));
      if (got < 0) return got;
      Frames::add_one(counters_.fills);
      Frames::add_one(counters_.fill_bytes, static_cast<std::uint64_t>(got));
      total += got;
      auto left = static_cast<std::uint64_t>(got);
      for (; count > 0 && left >= pieces->bytes; ++pieces, --count)
        left -= pieces->bytes;
      if (count == 0 || got == 0 || at + static_cast<std::uint64_t>(got) >= size(inode))
        return total;
      pieces->data += left;
      pieces->bytes -= left;
    }
  }

  // ---- writing ---------------------------------------------------------------------------------

  FERRY_DEVICE_CALL std::int64_t write_page(std::uint32_t inode, std::uint64_t page, Range range,
                                            const unsigned char* from) {
    std::uint32_t frame = frames_.find(key_of(inode, page), true);
    if (frame == no_frame) {
      std::int64_t error = 0;
      frame = take(error);
      if (frame == no_frame) return give_way(error);
      if (!frames_.insert(key_of(inode, page), frame, 0)) {
        frames_.give_back(frame);
        return again;
      }
      fruitless_ = 0;
      Frames::add_one(counters_.misses);
    } else {
      Frames::add_one(counters_.hits);
    }
    if (!frames_.begin_writing_to(frame)) {
      frames_.unpin(frame);
      return again;
    }
    // Either an outside call sees this writer on the page, or this writer sees the call: both
    // announce first and look then, in the single order of seq_cst accesses.
    Inode& file = view_.inode(inode);
    std::int64_t error = 0;
    if (DeviceRef<std::uint32_t>(file.outside_active).load(seq_cst) != 0) {
      error = again;
    } else if (DeviceRef<std::uint32_t>(view_.shared().stopping).load(seq_cst) != 0) {
      error = -ESHUTDOWN;
    } else if (DeviceRef<std::uint32_t>(file.id).load(acquire) != inode) {
      error = -EBADF;  // the record is another file's by now; the page goes when it is evicted
    } else {
      __builtin_memcpy(view_.page(frame) + range.begin, from, range.end - range.begin);
      while (error == 0 && !frames_.add_range(frame, range, file))
        error = write_back(frame);
      if (error == 0) grow(inode, (page << view_.layout.page_shift) + range.end);
    }
    frames_.end_writing_to(frame);
    frames_.unpin(frame);
    if (error == again) frames_.yield();
    return error;
  }

  // ---- writing back ----------------------------------------------------------------------------

  // Ranges on their way to the storage, in the order of the file.
  struct WriteBack {
    std::uint32_t frames[run_max];
    Ranges ranges[run_max];
    std::uint32_t count = 0;
    Piece pieces[run_max];
    std::uint32_t piece_count = 0;
    std::uint32_t piece_page = 0;  // index of the page that the first piece is from
    std::uint64_t offset = 0;      // of the first piece
    std::uint64_t bytes = 0;
  };

  // Writes back the page, which the caller has pinned, and the dirty ones right behind it.
  FERRY_DEVICE std::int64_t write_back(std::uint32_t frame) {
    return frames_.begin_transfer(frame, State::writing) ? write_back_run(frame) : 0;
  }
  // The same once `writing` is set.
  FERRY_DEVICE_CALL std::int64_t write_back_run(std::uint32_t frame) {
    const std::uint64_t key = frames_.key(frame);
    Inode& inode = view_.inode(inode_of(key));
    WriteBack work;
    std::int64_t error = collect(work, frame, inode);
    while (work.count < run_max) {
      const std::uint32_t next = frames_.find(key + work.count);
      if (next == no_frame) break;
      if (!frames_.try_write_back(next)) {
        frames_.unpin(next);
        break;
      }
      const std::int64_t result = collect(work, next, inode);
      if (result != 0) error = result;
    }
    const std::int64_t result = send(work, inode);
    if (result != 0) error = result;
    for (std::uint32_t i = 0; i < work.count; ++i) {
      Frames::written_back(work.ranges[i], inode);
      frames_.end_transfer(work.frames[i], State::writing);
      if (i > 0) frames_.unpin(work.frames[i]);
    }
    return error;
  }

  // Takes the page's ranges, F3; sends what does not continue before them.
  FERRY_DEVICE std::int64_t collect(WriteBack& work, std::uint32_t frame, Inode& inode) {
    const std::uint32_t index = work.count++;
    work.frames[index] = frame;
    work.ranges[index] = frames_.take_ranges(frame);
    const std::uint64_t start = page_of(frames_.key(frame)) << view_.layout.page_shift;
    std::int64_t error = 0;
    for (std::uint32_t i = 0; i < work.ranges[index].count; ++i) {
      const Range range = work.ranges[index].list[i];
      if (work.piece_count > 0 && work.offset + work.bytes != start + range.begin) {
        const std::int64_t result = send(work, inode);
        if (result != 0) error = result;
      }
      if (work.piece_count == 0) {
        work.offset = start + range.begin;
        work.piece_page = index;
      }
      work.pieces[work.piece_count++] =
          Piece{view_.page(frame) + range.begin, range.end - range.begin};
      work.bytes += range.end - range.begin;
    }
    return error;
  }

  FERRY_DEVICE_CALL std::int64_t send(WriteBack& work, Inode& inode) {
    if (work.piece_count == 0) return 0;
    std::int64_t got = -EBADF;
    // A handle may be closed just now; then the inode has another one, or nothing was left to it.
    for (int tries = 0; got == -EBADF && tries < handle_tries; ++tries) {
      const std::int32_t handle = DeviceRef<std::int32_t>(inode.write_handle).load(acquire);
      got =
          io_.write(handle, work.pieces, work.piece_count, static_cast<std::int64_t>(work.offset));
    }
    std::int64_t error = 0;
    if (got != static_cast<std::int64_t>(work.bytes)) {
      error = got < 0 ? got : -EIO;
      keep_dirty(work, inode);
      DeviceRef<std::int32_t>(inode.write_error).store(static_cast<std::int32_t>(-error), relaxed);
      DeviceRef<std::uint32_t>(inode.write_errors).fetch_add(1, release);
    } else {
      Frames::add_one(counters_.write_backs);
      Frames::add_one(counters_.write_back_bytes, work.bytes);
    }
    work.piece_count = 0;
    work.bytes = 0;
    return error;
  }

  // What could not be written is dirty again. Where newer ranges leave no room for the old ones,
  // those are lost; the error tells.
  FERRY_DEVICE void keep_dirty(const WriteBack& work, Inode& inode) {
    const std::uint64_t end = work.offset + work.bytes;
    for (std::uint32_t i = work.piece_page; i < work.count; ++i) {
      const std::uint64_t start = page_of(frames_.key(work.frames[i])) << view_.layout.page_shift;
      for (std::uint32_t k = 0; k < work.ranges[i].count; ++k) {
        const Range range = work.ranges[i].list[k];
        if (start + range.begin >= work.offset && start + range.end <= end)
          frames_.add_range(work.frames[i], range, inode);
      }
    }
  }

  static constexpr int handle_tries = 4;

  const View& view_;
  Frames frames_;
  Io& io_;
  Counters& counters_;
  std::uint32_t fruitless_ = 0;
};

}  // namespace ferry::device::cache
