// Reads and writes files through the page cache, on the calling core.
//
// A hit finds the page, marks or pins it, copies, and releases it. A miss takes frames for a run of
// absent pages, enters them as `filling` and reads them with one request; others that want them
// wait. A write to an absent page reads nothing: the page keeps the written ranges. Write-back
// writes exactly these ranges, neighbours with one request.
//
// Calls that change the file past the cache (truncations, appends, writes of placement `host`) are
// *outside* calls (outside.hpp). While one is in flight, cached writes to that file wait, and a
// concurrent fill of a page it changes is discarded.
//
// Errors are negative errno values. The inode keeps the error of a write-back until a flush.
#pragma once

#include <cerrno>
#include <cstdint>

#include <ferry/device/cache/filling.hpp>
#include <ferry/device/cache/frames.hpp>
#include <ferry/device/cache/hits.hpp>
#include <ferry/device/cache/layout.hpp>
#include <ferry/device/cache/outside.hpp>
#include <ferry/device/cache/transfers.hpp>
#include <ferry/device/cache/write_back.hpp>
#include <ferry/device/copy.hpp>

namespace ferry::device::cache {

// Bytes of a cached page that may be written.
struct WriteAccess {
  unsigned char* data = nullptr;
  std::uint64_t bytes = 0;
  std::uint32_t frame = no_frame;
  bool was_dirty = false;
};

// One object per group, for its leader; many share a cache. `Io`: see transfers.hpp.
template <class Io>
class PageCache {
 public:
  FERRY_DEVICE PageCache(const View& view, const HostHooks& hooks, Io& io, std::uint32_t group)
      : view_(view),
        frames_(view, hooks),
        counters_(view.counters(group)),
        reader_(view.reader(group)),
        outside_(view, hooks),
        transfers_(view, hooks, frames_, io, counters_),
        write_back_(view, frames_, transfers_, io, counters_, group),
        filling_(view, frames_, outside_, transfers_, write_back_, io, counters_, group) {}
  // Its parts refer to one another.
  PageCache(const PageCache&) = delete;
  PageCache& operator=(const PageCache&) = delete;

  FERRY_DEVICE std::uint64_t size(std::uint32_t inode) const { return cache::size(view_, inode); }

  // `handle` may read.
  FERRY_DEVICE_CALL std::int64_t read(std::uint32_t inode, std::int32_t handle, void* to,
                                      std::uint64_t bytes, std::uint64_t offset) {
    PageLook look{inode, handle};
    std::uint64_t done = 0;
    while (done < bytes) {
      const std::uint64_t at = offset + done;
      const std::uint64_t left = left_of(inode, at, bytes - done);
      if (left == 0) break;
      const StepResult got = read_page(look, static_cast<unsigned char*>(to) + done, left, at,
                                       streams_copies(bytes, view_.streaming.out_bytes_min));
      if (got.step == Step::again) continue;
      if (got.step == Step::failed) return done > 0 ? static_cast<std::int64_t>(done) : got.value;
      done += static_cast<std::uint64_t>(got.value);
    }
    return static_cast<std::int64_t>(done);
  }

  // The inode must have a writable handle, and the bytes must be within View::bytes_max().
  FERRY_DEVICE_CALL std::int64_t write(std::uint32_t inode, const void* from, std::uint64_t bytes,
                                       std::uint64_t offset) {
    const bool streaming = streams_copies(bytes, view_.streaming.into_bytes_min);
    std::uint64_t done = 0;
    while (done < bytes) {
      const std::uint64_t at = offset + done;
      const Range range = range_of(at, bytes - done);
      const auto* source = static_cast<const unsigned char*>(from) + done;
      StepResult got = write_page(inode, at, range, source, streaming);
      if (got.step == Step::past) got = StepResult(write_past(inode, at, range, source));
      if (got.step == Step::again) continue;
      if (got.step == Step::failed) return done > 0 ? static_cast<std::int64_t>(done) : got.value;
      done += static_cast<std::uint64_t>(got.value);
    }
    return static_cast<std::int64_t>(done);
  }

  // ---- writes in two halves, for groups that copy together --------------------------------------

  // Reserves up to `bytes` bytes at `at`, up to the end of their page: store them at access.data,
  // then call end_write(). Failed: nothing has begun; `past`: call write() instead. The inode must
  // have a writable handle.
  FERRY_DEVICE StepResult begin_write(std::uint32_t inode, std::uint64_t at, std::uint64_t bytes,
                                      WriteAccess& access) {
    std::uint32_t tries = 0;
    const StepResult begun = try_begin_write(inode, at, bytes, access, tries);
    return begun.step == Step::again ? begin_write_later(inode, at, bytes, access, tries) : begun;
  }

  // Done: the bytes are the file's. `again`: the page was dropped; call begin_write() again.
  FERRY_DEVICE_CALL StepResult end_write(std::uint32_t inode, std::uint64_t at,
                                         const WriteAccess& access) {
    Inode& file = view_.inode(inode);
    const Range range = range_of(at, access.bytes);
    StepResult result;
    bool entered = frames_.add_range(access.frame, range, file);
    while (!entered && result.step == Step::done) {
      result = StepResult(write_back_.make_room(access.frame));
      // Dropping a page waits for its writers, and orphans are not written back.
      if ((frames_.state(access.frame).load(acquire) & State::orphan) != 0) {
        result = Step::again;
      } else if (frames_.add_range(access.frame, range, file)) {
        entered = true;  // after an error, too: some ranges may have been written
        result = Step::done;
      }
    }
    if (entered) {
      grow(inode, at + access.bytes);
    } else if (result.step == Step::failed) {
      // The bytes are in the page and must stay invisible. They are outside its ranges, since a
      // range that touches them would have included them: so the next reader gets them from storage
      // (F2: not before this writer has left).
      frames_.state(access.frame).fetch_and(~State::valid, acq_rel);
    }
    leave_write(access.frame);
    if (entered && !access.was_dirty)
      write_back_.relieve(key_of(inode, at >> view_.layout.page_shift));
    return result;
  }

  // Writes back dirty data and waits for others' write-backs. Returns 0 or their last error; errors
  // of earlier write-backs are in Inode::write_error.
  FERRY_DEVICE std::int64_t flush(std::uint32_t inode, Pages pages = {},
                                  bool sync_follows = false) {
    return write_back_.flush(inode, pages, sync_follows ? Flight::writes_for_sync : Flight::writes);
  }
  // The error of the file's last write-back, or 0.
  FERRY_DEVICE std::int64_t last_error(std::uint32_t inode) const {
    return -std::int64_t{failing(view_.inode(inode))};
  }
  // Whether storage has everything.
  FERRY_DEVICE bool is_clean(std::uint32_t inode) const {
    return DeviceRef<std::uint64_t>(view_.inode(inode).dirty_pages).load(acquire) == 0;
  }
  // Ends transfers that no call waited for.
  FERRY_DEVICE void settle() { transfers_.settle(); }

  // Requests the pages of this range without waiting.
  FERRY_DEVICE void prefetch(std::uint32_t inode, std::int32_t handle, std::uint64_t offset,
                             std::uint64_t bytes) {
    const std::uint64_t left = left_of(inode, offset, bytes);
    if (left > 0) filling_.prefetch(inode, handle, view_.pages_of(offset, left));
  }

  // ---- pinned page views -----------------------------------------------------------------------

  // Pins the page at `offset`; `view` shows up to `bytes` bytes from there, up to the end of the
  // page and the file. Returns how many, 0 at the end of the file; -EAGAIN: views hold half the
  // cache, or failing write-back leaves the page no place. With `pull`, the caller's group may pull
  // absent data: on `pulled` end_pull() must follow.
  FERRY_DEVICE_CALL StepResult hold(std::uint32_t inode, std::int32_t handle, std::uint64_t offset,
                                    std::uint64_t bytes, PinnedView& view, Pull* pull = nullptr) {
    view = PinnedView{};
    if (!take_view()) return StepResult(-EAGAIN);
    // Later the present bytes would be unknown: the whole page must be.
    PageLook look{inode, handle, true, pull};
    StepResult result = Step::again;
    while (result.step == Step::again) {
      const std::uint64_t left = left_of(inode, offset, bytes);
      result = {};
      if (left == 0) break;
      // With the following pages that the caller also wants, by one request.
      const FoundPage found = get(look, offset, left);
      result = found.result;
      if (result.step == Step::done) return show(found.frame, offset, left, view);
    }
    if (result.step == Step::pulled) return result;
    give_back_view(view_, reader_);
    return result.step == Step::past ? StepResult(-EAGAIN) : result;
  }
  // After a pull's bytes are in place: the result of hold() with the same arguments, or `again`:
  // call it again.
  FERRY_DEVICE_CALL StepResult end_pull(const Pull& pull, std::uint64_t offset, std::uint64_t bytes,
                                        PinnedView& view) {
    view = PinnedView{};
    const StepResult result = filling_.end(pull);
    if (result.step == Step::done) {
      const std::uint64_t left = left_of(pull.inode, offset, bytes);
      if (left != 0) return show(pull.frames[0], offset, left, view);
      frames_.unpin(pull.frames[0]);  // the file was cut meanwhile
    }
    give_back_view(view_, reader_);
    return result;
  }

  // ---- outside calls ---------------------------------------------------------------------------

  // Between these two no cached write to these pages is in flight, and none to the file's pages
  // begins: a `flush()` in between leaves them clean. Outside calls take turns. `changed`: the
  // pages that the call changes.
  FERRY_DEVICE_CALL void begin_outside(std::uint32_t inode, Pages pages = {}, Pages changed = {}) {
    begin_outside_unless(inode, pages, changed, [] { return false; });
  }
  // The same, unless it becomes needless while it waits: then returns false.
  template <class IsNeedless>
  FERRY_DEVICE bool begin_outside_unless(std::uint32_t inode, Pages pages, Pages changed,
                                         IsNeedless is_needless) {
    if (!outside_.begin_unless(inode, changed, is_needless)) return false;
    frames_.each_of(inode, pages, [&](std::uint32_t frame) { wait_for_writers(frame); });
    return true;
  }
  FERRY_DEVICE void end_outside(std::uint32_t inode) { outside_.end(inode); }

  // The file's end has moved to `size`, by `written` bytes that an outside call appended when the
  // file ended at `before`, as far as this device knew: drops pages from there on.
  FERRY_DEVICE_CALL void appended(std::uint32_t inode, std::uint64_t before, std::uint64_t written,
                                  std::uint64_t size) {
    if (size < written || size - written < before) {  // others have cut the file
      outside_.widen(inode);
      before = 0;
    }
    const Pages changed{before >> view_.layout.page_shift, Pages{}.end};
    frames_.each_of(inode, changed, [&](std::uint32_t frame) { drop_page(frame, inode); });
    resize(inode, size);
  }

  // An outside call that was to change these pages has failed, after a flush: drops them, so that
  // they are read again. The file has `size` bytes at least.
  FERRY_DEVICE_CALL void renew(std::uint32_t inode, Pages changed, std::uint64_t size) {
    frames_.each_of(inode, changed, [&](std::uint32_t frame) { drop_page(frame, inode); });
    grow(inode, view_.size_of(size));
  }

  // An outside call has put `bytes` at `offset` into the file, after a flush: cached pages follow.
  FERRY_DEVICE_CALL void update(std::uint32_t inode, const void* from, std::uint64_t bytes,
                                std::uint64_t offset) {
    const std::uint64_t end = view_.size_of(offset + bytes);
    bytes = offset < end ? end - offset : 0;
    for (std::uint64_t done = 0; done < bytes;) {
      const std::uint64_t at = offset + done;
      const Range range = range_of(at, bytes - done);
      const std::uint32_t frame = frames_.find(key_of(inode, at >> view_.layout.page_shift));
      if (frame != no_frame) {
        // A page that is not valid has nothing dirty after the flush, so it reads all of this from
        // storage.
        if ((transfers_.wait_while(frame, State::filling) & State::valid) != 0) {
          copy_alone(view_.page(frame) + range.begin,
                     static_cast<const unsigned char*>(from) + done, range.end - range.begin);
        }
        frames_.unpin(frame);
      }
      done += range.end - range.begin;
    }
    grow(inode, end);
  }

  // An outside call has truncated or extended the file to `size`, after a flush: drops pages behind
  // its end, with dirty data that could not be written.
  FERRY_DEVICE_CALL void resize(std::uint32_t inode, std::uint64_t size) {
    frames_.each_of(inode, Pages{}, [&](std::uint32_t frame) {
      const std::uint64_t start = page_of(frames_.key(frame)) << view_.layout.page_shift;
      if (start + view_.page_bytes() <= size) return;
      if (start >= size) return drop_page(frame, inode);
      if (!transfers_.begin(frame, State::filling)) return;
      const auto end = static_cast<std::uint32_t>(size - start);
      frames_.cut_ranges(frame, end, view_.inode(inode));
      __builtin_memset(view_.page(frame) + end, 0, view_.page_bytes() - end);
      transfers_.end(frame, State::filling);
    });
    set_size(inode, size);
  }
  FERRY_DEVICE void set_size(std::uint32_t inode, std::uint64_t size) const {
    DeviceRef<std::uint64_t>(view_.inode(inode).size_bytes).store(view_.size_of(size), release);
  }

  // Waits until all cached writes in flight to a storage's files have ended.
  FERRY_DEVICE_CALL void wait_for_all_writers(std::uint32_t storage) {
    for (std::uint32_t frame = 0; frame < view_.layout.geometry.frames; ++frame)
      if (storage_of(frame) == storage) wait_for_writers(frame);
  }
  // Starts write-backs that need no waiting.
  FERRY_DEVICE_CALL void begin_flush(std::uint32_t inode) {
    if (is_clean(inode)) return;
    frames_.each_of(inode, Pages{}, [&](std::uint32_t frame) {
      if ((frames_.state(frame).load(acquire) & State::dirty) != 0)
        write_back_.begin_unawaited(frame);
    });
  }
  // One bit for each storage with pages in flight.
  FERRY_DEVICE_CALL std::uint32_t busy_storages() const {
    transfers_.finish_answered();
    std::uint32_t busy = 0;
    for (std::uint32_t frame = 0; frame < view_.layout.geometry.frames; ++frame)
      if ((frames_.state(frame).load(acquire) & (State::filling | State::writing)) != 0)
        busy |= 1U << storage_of(frame);
    return busy;
  }

  // Removes the pages of a closed file from the table, without waiting: none is dirty, and fills
  // end by themselves.
  FERRY_DEVICE_CALL void forget(std::uint32_t inode) {
    frames_.each_of(inode, Pages{}, [&](std::uint32_t frame) { frames_.make_orphan(frame); });
  }
  // Drops every page of the file; dirty data is lost. During an outside call.
  FERRY_DEVICE_CALL void drop(std::uint32_t inode) {
    frames_.each_of(inode, Pages{}, [&](std::uint32_t frame) { drop_page(frame, inode); });
  }

 private:
  // Returns false if half the cache is held, or may be by others.
  FERRY_DEVICE bool take_view() {
    if (reader_.views == 0) {
      const std::uint32_t half = view_.layout.geometry.frames / 2;
      const std::uint32_t wanted = views_at_once(view_);
      DeviceRef<std::uint32_t> held_pages(view_.shared().held_pages);
      std::uint32_t now = held_pages.load(relaxed);
      do {
        if (now + wanted > half) return false;
      } while (!held_pages.compare_exchange_weak(now, now + wanted, relaxed, relaxed));
      reader_.views = wanted;
    }
    --reader_.views;
    return true;
  }
  FERRY_DEVICE std::uint32_t storage_of(std::uint32_t frame) const {
    return cache::storage(view_, inode_of(frames_.key(frame)));
  }
  // How many of these bytes the file has.
  FERRY_DEVICE std::uint64_t left_of(std::uint32_t inode, std::uint64_t offset,
                                     std::uint64_t bytes) const {
    const std::uint64_t end = size(inode);
    const std::uint64_t there = offset < end ? end - offset : 0;
    return bytes < there ? bytes : there;
  }
  FERRY_DEVICE StepResult show(std::uint32_t frame, std::uint64_t offset, std::uint64_t bytes,
                               PinnedView& view) const {
    const Range range = range_of(offset, bytes);
    view = PinnedView{view_.page(frame) + range.begin, range.end - range.begin, frame};
    return StepResult(static_cast<std::int64_t>(view.bytes));
  }

  FERRY_DEVICE void wait_for_writers(std::uint32_t frame) const {
    for (std::uint32_t looks = 0; (frames_.state(frame).load(seq_cst) & State::writers) != 0;
         ++looks)
      transfers_.look_later(frame, looks);
  }

  FERRY_DEVICE bool streams_copies(std::uint64_t bytes, std::uint64_t from) const {
    return bytes >= from && view_.switches.streaming_copies;
  }

  // The page at `at`; brings in what of the `left` bytes from there is absent.
  FERRY_DEVICE FoundPage get(PageLook& look, std::uint64_t at, std::uint64_t left) {
    return reader_.tries >= tries_before_turn ? get_in_turn(look, at, left)
                                              : try_get(look, at, left);
  }
  // Outside calls have sent it back too often. A pull would take longer than the turn.
  FERRY_DEVICE_CALL FoundPage get_in_turn(PageLook& look, std::uint64_t at, std::uint64_t left) {
    Pull* const pull = look.pull;
    look.pull = nullptr;
    outside_.begin_turn(look.inode);
    const FoundPage found = try_get(look, at, left);
    outside_.end_turn(look.inode);
    look.pull = pull;
    if (found.result.step == Step::done) reader_.tries = 0;
    return found;
  }
  FERRY_DEVICE FoundPage try_get(PageLook& look, std::uint64_t at, std::uint64_t left) {
    const std::uint64_t page = at >> view_.layout.page_shift;
    const std::uint64_t key = key_of(look.inode, page);
    std::uint64_t before = 0;
    FoundPage found;
    found.frame = frames_.find(key, before);
    const std::uint64_t wanted = ((at + left - 1) >> view_.layout.page_shift) - page + 1;
    const bool missed = found.frame == no_frame;
    if (!look.noted && (missed || (before & (State::ahead | State::filling)) != 0)) {
      look.noted = true;
      filling_.read_ahead(look.inode, look.handle, page, wanted, missed);
    }
    if (missed && look.pull != nullptr && filling_.pulls(wanted)) {
      found.result = filling_.begin(look, page, wanted);
      if (found.result.step == Step::pulled) reader_.last_key = key;
      return found;
    }
    if (missed) {
      found = filling_.fill(look, page, wanted);
      if (found.result.step != Step::done) return found;
    } else if (page >= look.counted) {
      Frames::add_one(counters_.hits);
      // Neither readahead's use nor the next piece of the page used last is a second use: a scan
      // must not look like a habit.
      if ((before & (State::ahead | State::filling)) == 0 && key != reader_.last_key)
        frames_.touch(found.frame, before);
    }
    reader_.last_key = key;
    if ((before & (State::valid | State::filling | State::orphan | State::ahead)) == State::valid)
      return found;
    found.result = filling_.make_readable(look, found, range_of(at, left));
    if (found.result.step != Step::done) {
      frames_.unpin(found.frame);
    } else if ((frames_.state(found.frame).fetch_and(~State::ahead, relaxed) & State::ahead) != 0) {
      Frames::add_one(counters_.readahead_used);
    }
    return found;
  }

  // The part of [at, at + bytes) in the page of `at`.
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

  FERRY_DEVICE void drop_page(std::uint32_t frame, std::uint32_t inode) {
    frames_.make_orphan(frame);
    // A writer that came after begin_outside() may not have looked for the call yet. It must do so
    // while the call is in flight, or it would write to the orphan.
    wait_for_writers(frame);
    transfers_.wait_while(frame, State::filling | State::writing);
    frames_.cut_ranges(frame, 0, view_.inode(inode));
  }

  // The part of a read in the page of `at`, or more of it past the cache.
  FERRY_DEVICE StepResult read_page(PageLook& look, unsigned char* to, std::uint64_t left,
                                    std::uint64_t at, bool streaming) {
    const FoundPage found = get(look, at, left);
    if (found.result.step == Step::past) return filling_.read_past(look, to, left, at);
    if (found.result.step != Step::done) return found.result;
    const Range range = range_of(at, left);
    copy_out(to, view_.page(found.frame) + range.begin, range.end - range.begin, streaming);
    if (found.held) transfers_.end_writing_to(found.frame);
    frames_.unpin(found.frame);
    return StepResult(std::int64_t{range.end - range.begin});
  }

  FERRY_DEVICE_CALL StepResult begin_write_later(std::uint32_t inode, std::uint64_t at,
                                                 std::uint64_t bytes, WriteAccess& access,
                                                 std::uint32_t tries) {
    StepResult begun = Step::again;
    while (begun.step == Step::again) {
      outside_.rest_once(inode);
      const bool turn = tries >= tries_before_turn;
      if (turn) outside_.begin_turn(inode);
      begun = try_begin_write(inode, at, bytes, access, tries);
      if (turn) outside_.end_turn(inode);
    }
    return begun;
  }
  // `tries` counts how often an outside call caused `again`.
  FERRY_DEVICE_CALL StepResult try_begin_write(std::uint32_t inode, std::uint64_t at,
                                               std::uint64_t bytes, WriteAccess& access,
                                               std::uint32_t& tries) {
    const std::uint64_t key = key_of(inode, at >> view_.layout.page_shift);
    std::uint64_t before = 0;
    std::uint32_t frame = frames_.find(key, before);
    if (frame == no_frame) {
      bool stuck = false;
      if (filling_.take(inode, &frame, 1, stuck) == 0) return filling_.give_way(stuck);
      if (frames_.insert_run(key, &frame, 1, 0) == 0) {
        frames_.give_back(frame);
        return Step::again;
      }
      Frames::add_one(counters_.misses);
    } else {
      Frames::add_one(counters_.hits);
      if (key != reader_.last_key) frames_.touch(frame, before);
    }
    reader_.last_key = key;
    if (!transfers_.begin_writing_to(frame)) {
      frames_.unpin(frame);
      return Step::again;
    }
    // Either an outside call sees this writer on the page, or this writer sees the call: both
    // announce first and look then, in the single order of seq_cst accesses.
    Inode& file = view_.inode(inode);
    StepResult begun;
    if (outside_.is_active(inode)) {
      begun = Step::again;
      ++tries;
    } else if (DeviceRef<std::uint32_t>(view_.shared().stopping).load(seq_cst) != 0) {
      begun = StepResult(-ESHUTDOWN);
    } else if (DeviceRef<std::uint32_t>(file.id).load(acquire) != inode) {
      // The record belongs to another file by now; the page goes when it is evicted.
      begun = StepResult(-EBADF);
    } else if (is_hindered(file)) {
      begun = hindrance(file, before);
    }
    if (begun.step != Step::done) {
      leave_write(frame);
      return begun;
    }
    const Range range = range_of(at, bytes);
    access = WriteAccess{view_.page(frame) + range.begin, range.end - range.begin, frame,
                         (before & State::dirty) != 0};
    return begun;
  }

  FERRY_DEVICE StepResult write_page(std::uint32_t inode, std::uint64_t at, Range range,
                                     const unsigned char* from, bool streaming) {
    WriteAccess access;
    const StepResult begun = begin_write(inode, at, range.end - range.begin, access);
    if (begun.step != Step::done) return begun;
    copy_in(access.data, from, access.bytes, streaming);
    StepResult ended = end_write(inode, at, access);
    if (ended.step == Step::done) ended.value = static_cast<std::int64_t>(access.bytes);
    return ended;
  }
  // The same past the cache, as an outside call: storage has these bytes, or returns the reason.
  FERRY_DEVICE_CALL std::int64_t write_past(std::uint32_t inode, std::uint64_t at, Range range,
                                            const unsigned char* from) {
    Inode& file = view_.inode(inode);
    const Pages page = view_.pages_of(at, range.end - range.begin);
    begin_outside(inode, page, page);
    // Older data must not be written back later.
    std::int64_t got = flush(inode, page);
    if (got == 0 && DeviceRef<std::uint32_t>(file.id).load(acquire) != inode) got = -EBADF;
    if (got == 0) got = write_back_.write_through(file, from, range.end - range.begin, at);
    if (got > 0) update(inode, from, static_cast<std::uint64_t>(got), at);
    end_outside(inode);
    return got;
  }

  // Whether a write to the file needs a closer look. One branch for both, on every write's path.
  FERRY_DEVICE static bool is_hindered(Inode& file) {
    const unsigned unwritable = DeviceRef<std::int32_t>(file.write_handle).load(acquire) == 0;
    const unsigned fails = failing(file) != 0;
    return (unwritable | fails) != 0;
  }
  // The page could not be written back: its handle is just closing. Nor does a file whose
  // write-back fails make more pages dirty (`before`: the page's state) while the cache has many.
  FERRY_DEVICE_CALL StepResult hindrance(Inode& file, std::uint64_t before) const {
    if (DeviceRef<std::int32_t>(file.write_handle).load(acquire) == 0) return StepResult(-EBADF);
    const std::uint64_t dirty = DeviceRef<std::uint64_t>(view_.shared().dirty_pages).load(relaxed);
    return (before & State::dirty) == 0 && dirty > view_.layout.dirty_low ? Step::past : Step::done;
  }

  FERRY_DEVICE void leave_write(std::uint32_t frame) {
    transfers_.end_writing_to(frame);
    frames_.unpin(frame);
  }

  const View& view_;
  Frames frames_;
  Counters& counters_;
  Reader& reader_;
  OutsideCalls outside_;
  Transfers<Io> transfers_;
  WriteBack<Io> write_back_;
  Filling<Io> filling_;
};

}  // namespace ferry::device::cache
