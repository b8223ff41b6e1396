// Reads pages into the cache: immediately for a reader that needs them, and ahead of later reads.
//
// A fill takes frames for a run of absent pages, enters them as `filling`, and reads them with one
// request; others that want them wait. If an outside call changed one meanwhile, the data is
// discarded (outside.hpp).
//
// Small fills can be *pulled*: the storage reads into the staging area of the reader's group, whose
// lanes copy to the frames before the fill ends. On a GPU that is faster than starting a copy
// engine.
#pragma once

#include <cstdint>

#include <ferry/device/cache/frames.hpp>
#include <ferry/device/cache/layout.hpp>
#include <ferry/device/cache/outside.hpp>
#include <ferry/device/cache/streams.hpp>
#include <ferry/device/cache/transfers.hpp>
#include <ferry/device/cache/write_back.hpp>
#include <ferry/device/copy.hpp>

namespace ferry::device::cache {

// The outcome of a step of a call through the cache.
enum class Step : std::uint8_t {
  done,
  again,   // look for the page again
  pulled,  // a Pull has begun
  past,    // no place for the page, because write-back fails: the call bypasses the cache
  failed,
};
struct StepResult {
  Step step = Step::done;
  std::int64_t value = 0;  // done: bytes, where the step moves some; failed: a negative errno

  StepResult() = default;
  FERRY_DEVICE StepResult(Step came_to) : step(came_to) {}
  FERRY_DEVICE explicit StepResult(std::int64_t result)
      : step(result < 0 ? Step::failed : Step::done), value(result) {}
};

// A fill that the reader's group must copy from its staging area, and then end.
struct Pull {
  static constexpr std::uint32_t pages_max = 8;

  const unsigned char* from = nullptr;
  std::uint64_t bytes = 0;    // from the storage
  std::uint64_t outside = 0;  // outside calls when it began
  std::uint32_t inode = 0;
  std::uint32_t count = 0;  // pages
  std::uint32_t frames[pages_max] = {};

  // The offset and length of page `index`.
  FERRY_DEVICE static std::uint64_t start_of(std::uint32_t index, const View& view) {
    return std::uint64_t{index} << view.layout.page_shift;
  }
  FERRY_DEVICE std::uint64_t bytes_of(std::uint32_t index, const View& view) const {
    const std::uint64_t start = start_of(index, view);
    const std::uint64_t left = bytes > start ? bytes - start : 0;
    return left < view.page_bytes() ? left : view.page_bytes();
  }
};
static_assert(sizeof(Pull) <= 64);  // what a GPU's block broadcasts at once

// A call's search in the cache, page by page, and its progress.
struct PageLook {
  std::uint32_t inode;
  std::int32_t handle;        // that may read
  bool whole = false;         // needs complete pages, not only the bytes to read
  Pull* pull = nullptr;       // takes absent data, if the caller's group can copy it
  std::uint64_t counted = 0;  // pages before this one were brought in by this call
  bool noted = false;         // the streams know of it
};
struct FoundPage {
  StepResult result;
  std::uint32_t frame = no_frame;  // done: pinned, and readable
  bool held = false;               // incomplete: end_writing_to() must follow
};

template <class Io>
class Filling {
 public:
  FERRY_DEVICE Filling(const View& view, const Frames& frames, const OutsideCalls& outside,
                       const Transfers<Io>& transfers, WriteBack<Io>& write_back, Io& io,
                       Counters& counters, std::uint32_t group)
      : view_(view),
        frames_(frames),
        outside_(outside),
        transfers_(transfers),
        write_back_(write_back),
        io_(io),
        counters_(counters),
        group_(group) {}

  // ---- what a reader needs ---------------------------------------------------------------------

  // Fills `page`, and the run of absent pages after it among the `wanted` ones.
  FERRY_DEVICE_CALL FoundPage fill(PageLook& look, std::uint64_t page, std::uint64_t wanted) {
    FoundPage found;
    const std::uint32_t limit = limit_of(wanted, run_max);
    std::uint64_t outside = 0;
    std::uint32_t run[run_max];
    std::uint32_t count = 0;
    found.result = begin_run(look.inode, page, limit, outside, run, count);
    if (found.result.step != Step::done) return found;
    if (page + count > look.counted) look.counted = page + count;
    found.frame = run[0];
    found.result =
        end_run(look.inode, outside, run, count, read_run(look.handle, page, run, count));
    return found;
  }

  // Whether this many bytes are pulled.
  FERRY_DEVICE bool pulls(std::uint64_t wanted) const {
    return wanted <= Pull::pages_max &&
           Pull::start_of(static_cast<std::uint32_t>(wanted), view_) <= io_.pull_bytes();
  }
  // The same by a pull. On `pulled` the bytes are in the staging area; copy them, then call end().
  FERRY_DEVICE_CALL StepResult begin(const PageLook& look, std::uint64_t page,
                                     std::uint64_t wanted) {
    Pull& pull = *look.pull;
    pull = Pull{};
    pull.inode = look.inode;
    const std::uint32_t limit = limit_of(wanted, Pull::pages_max);
    const StepResult begun =
        begin_run(look.inode, page, limit, pull.outside, pull.frames, pull.count);
    if (begun.step != Step::done) return begun;
    unsigned char* staging = io_.staging();
    Piece piece{staging, Pull::start_of(pull.count, view_)};
    const std::int64_t got =
        read_pieces(look.inode, look.handle, &piece, 1, page << view_.layout.page_shift);
    if (got < 0) return end_run(look.inode, pull.outside, pull.frames, pull.count, got);
    pull.from = staging;
    pull.bytes = static_cast<std::uint64_t>(got);
    return Step::pulled;
  }
  // When done its first frame is pinned and valid.
  FERRY_DEVICE_CALL StepResult end(const Pull& pull) {
    for (std::uint32_t i = 0; i < pull.count; ++i)
      frames_.clear_behind(pull.frames[i], pull.bytes, i);
    return end_run(pull.inode, pull.outside, pull.frames, pull.count, 0);
  }

  // When done, the range of the found page may be read while the pin lasts. `held`, unless complete
  // pages are needed: the page is not valid, and counts its reader as a writer, which prevents a
  // fill meanwhile.
  FERRY_DEVICE StepResult make_readable(const PageLook& look, FoundPage& found, Range range) {
    const std::uint32_t frame = found.frame;
    for (;;) {
      std::uint64_t now = frames_.state(frame).load(acquire);
      if ((now & State::filling) != 0) {
        Frames::add_one(counters_.waits);
        now = transfers_.wait_while(frame, State::filling);
      }
      if ((now & State::orphan) != 0) return sent_back();
      if ((now & State::valid) != 0) return {};
      if (!look.whole) {
        if (!transfers_.begin_writing_to(frame)) return Step::again;
        found.held = frames_.has_range(frame, range);
        if (found.held) return {};
        transfers_.end_writing_to(frame);
      }
      const StepResult completed = complete(frame, look.handle);
      if (completed.step != Step::done) return completed;
    }
  }

  // Reads the gaps between the written ranges.
  FERRY_DEVICE_CALL StepResult complete(std::uint32_t frame, std::int32_t handle) {
    const std::uint32_t inode = inode_of(frames_.key(frame));
    const std::uint64_t page = page_of(frames_.key(frame));
    const std::uint64_t start = page << view_.layout.page_shift;
    std::uint64_t outside = 0;
    if (!begin_fill(inode, Pages{page, page + 1}, outside)) return Step::again;
    if (!transfers_.begin(frame, State::filling)) return Step::again;
    if ((frames_.state(frame).load(acquire) & State::valid) != 0) {
      // Another reader has done so meanwhile, and others may be reading the result.
      transfers_.end(frame, State::filling);
      return {};
    }
    const Ranges there = frames_.ranges(frame);  // F2: none can be added now
    std::int64_t error = 0;
    std::uint32_t at = 0;
    for (std::uint32_t i = 0; i <= there.count && error == 0; ++i) {
      const std::uint32_t end = i < there.count ? there.list[i].begin : view_.page_bytes();
      if (at < end) error = read_gap(handle, frame, start, Range{at, end});
      if (i < there.count) at = there.list[i].end;
    }
    StepResult result(error);
    if (error == 0 && outside_.is_outdated(inode, Pages{page, page + 1}, outside))
      result = sent_back();
    transfers_.end(frame, State::filling, result.step == Step::done ? State::valid : 0);
    return result;
  }

  // Frames for pages of this file needed now: eviction may write back first. Fewer than wanted: too
  // many are in use, or `stuck`: of files whose write-back fails, or of other storages that do not
  // write them. A call suffers only from its own file's problems: it leaves the former alone and
  // does not wait for the latter. It waits for its own storage only while it has no frame: with one
  // in hand, on a storage that hangs, it would keep others from it.
  FERRY_DEVICE_CALL std::uint32_t take(std::uint32_t inode, std::uint32_t* frames,
                                       std::uint32_t wanted, bool& stuck) {
    if (wanted == 0) {  // another group has entered the page
      fruitless_ = waits_ = 0;
      return 0;
    }
    const std::uint32_t mine = storage(view_, inode);
    DirtySeen seen;
    std::uint32_t taken = search(mine, frames, wanted, false, seen);
    if (taken == 0) {
      // Answered flights that no party has ended hold frames.
      transfers_.finish_answered();
      taken = search(mine, frames, 1, true, seen);
    }
    if (taken == 0 && transfers_.attend_some_write_back(group_, inode))
      taken = search(mine, frames, 1, true, seen);
    if (seen.failing) stuck = true;
    if (taken == 0 && (seen.others || is_full_of_others(mine)) && ++fruitless_ >= fruitless_max)
      stuck = true;
    if (taken > 0) fruitless_ = waits_ = 0;
    return taken;
  }

  // Whether every frame is in use, none by a transfer of this storage, which would end. Readers of
  // this storage may hold views. A page that was dropped is as much in use as others.
  FERRY_DEVICE_CALL bool is_full_of_others(std::uint32_t mine) const {
    constexpr std::uint64_t transfer = State::filling | State::writing;
    bool others = false;
    for (std::uint32_t frame = 0; frame < view_.layout.geometry.frames; ++frame) {
      const std::uint64_t now = frames_.state(frame).load(acquire);
      if ((now & (State::pins | transfer)) == 0 || (now & State::taken) != 0) return false;
      const std::uint32_t inode = inode_of(frames_.key(frame));
      // The record of a dropped page's file may be another file's, of another storage.
      const bool known = (now & State::orphan) == 0 ||
                         DeviceRef<std::uint32_t>(view_.inode(inode).id).load(acquire) == inode;
      const bool own = known && storage(view_, inode) == mine;
      if (own && (now & transfer) != 0) return false;
      if (!own) others = true;
    }
    return others;
  }

  // Another group entered the page, or every frame is in use: look again, unless frames are stuck.
  FERRY_DEVICE Step give_way(bool stuck) {
    if (stuck) return Step::past;
    transfers_.look_later(0, waits_++);
    return Step::again;
  }

  // ---- past the cache --------------------------------------------------------------------------

  // Reads up to `bytes` bytes of absent pages, from `at` on; 0 at the end of the file. Concurrent
  // writes by others may or may not be seen, as with any read.
  FERRY_DEVICE_CALL StepResult read_past(const PageLook& look, void* to, std::uint64_t bytes,
                                         std::uint64_t at) {
    const std::uint64_t page = at >> view_.layout.page_shift;
    const std::uint64_t last = (at + bytes - 1) >> view_.layout.page_shift;
    const std::uint64_t absent =
        frames_.count_absent(key_of(look.inode, page), limit_of(last - page + 1, run_max));
    if (absent == 0) return Step::again;
    const std::uint64_t there = ((page + absent) << view_.layout.page_shift) - at;
    if (bytes > there) bytes = there;
    if (bytes > io_.staging_bytes()) bytes = io_.staging_bytes();
    Piece piece{io_.staging(), bytes};
    const std::int64_t got = read_pieces(look.inode, look.handle, &piece, 1, at);
    if (got < 0) return StepResult(got);
    copy_alone(to, io_.staging(), static_cast<std::uint64_t>(got));
    // The file is longer than the storage knows: the gap is a hole.
    const std::uint64_t hole = bytes - static_cast<std::uint64_t>(got);
    __builtin_memset(static_cast<unsigned char*>(to) + got, 0, hole);
    return StepResult(static_cast<std::int64_t>(bytes));
  }

  // ---- what a reader will need -----------------------------------------------------------------

  // A read of `length` pages at `page` found its first page absent (`missed`), or first used a
  // prefetched one. Requests what the stream will need next, without waiting.
  FERRY_DEVICE_CALL void read_ahead(std::uint32_t inode, std::int32_t handle, std::uint64_t page,
                                    std::uint64_t length, bool missed) {
    // Several streams must fit into the cache, besides its other contents.
    const std::uint32_t share = view_.layout.geometry.frames / 16;
    std::uint32_t window = view_.tuning(inode).readahead_bytes_max >> view_.layout.page_shift;
    if (share < window) window = share;
    if (!view_.switches.readahead || window == 0 || length > window) return;
    Streams streams(view_.reader(group_), window);
    Stream* stream = streams.note(inode, page, static_cast<std::uint32_t>(length));
    if (stream == nullptr) return;
    const Ahead ahead = streams.plan(*stream, missed);
    std::uint64_t at = ahead.first;
    while (at < ahead.end) {
      const std::uint64_t piece = at + ahead.length < ahead.end ? at + ahead.length : ahead.end;
      if (!start_pages(inode, handle, Pages{at, piece})) break;
      at += ahead.stride;
    }
    if (at > stream->ahead) stream->ahead = at;
  }

  // Requests the absent ones of these pages, up to half the cache; does not wait.
  FERRY_DEVICE_CALL void prefetch(std::uint32_t inode, std::int32_t handle, Pages pages) {
    const std::uint64_t half = view_.layout.geometry.frames / 2;
    if (pages.end - pages.first > half) pages.end = pages.first + half;
    start_pages(inode, handle, pages);
  }

 private:
  // After this many consecutive searches that find only other storages' pages, a call bypasses the
  // cache.
  static constexpr std::uint32_t fruitless_max = 8;

  // What a search for frames met.
  struct DirtySeen {
    bool others = false;  // dirty pages of storages that the call does not wait for
    bool failing = false;
  };
  // Up to `wanted` frames, for a file of the storage `mine`. Starts to write back the dirty pages
  // that it meets; `wait`: writes those of its own storage itself.
  FERRY_DEVICE_CALL std::uint32_t search(std::uint32_t mine, std::uint32_t* frames,
                                         std::uint32_t wanted, bool wait, DirtySeen& seen) {
    const std::uint64_t rounds = 3 * std::uint64_t{view_.layout.geometry.frames};
    return frames_.take_run(frames, wanted, rounds, counters_, [&](std::uint32_t frame) {
      const std::uint64_t key = frames_.key(frame);
      Inode& file = view_.inode(inode_of(key));
      const bool own = storage(view_, inode_of(key)) == mine;
      if (failing(file) == 0) {
        if (!frames_.pin(frame, key)) return;
        if (!own || !wait) {
          write_back_.begin_unawaited(frame);
        } else if (transfers_.try_begin_writing(frame)) {
          write_back_.finish(frame);
        }
        frames_.unpin(frame);
      }
      if (failing(file) != 0) {
        seen.failing = true;
      } else if (!own) {
        seen.others = true;
      }
    });
  }
  // Before these pages are entered. Returns false if an outside call is changing one of them.
  FERRY_DEVICE bool begin_fill(std::uint32_t inode, Pages pages, std::uint64_t& outside) const {
    if (outside_.may_fill(inode, pages, outside)) return true;
    sent_back();
    outside_.rest_once(inode);
    return false;
  }
  // Outdated by an outside call: after enough failures the next try takes a turn.
  FERRY_DEVICE Step sent_back() const {
    ++view_.reader(group_).tries;
    return Step::again;
  }

  // How many of the wanted pages one fill takes: at most half the cache, so that threads with large
  // reads leave each other some frames.
  FERRY_DEVICE std::uint32_t limit_of(std::uint64_t wanted, std::uint32_t most) const {
    const std::uint32_t half = (view_.layout.geometry.frames + 1) / 2;
    const std::uint32_t limit = half < most ? half : most;
    return wanted < limit ? static_cast<std::uint32_t>(wanted) : limit;
  }
  // Enters up to `limit` absent pages from `page` on, `filling` and pinned.
  FERRY_DEVICE_CALL StepResult begin_run(std::uint32_t inode, std::uint64_t page,
                                         std::uint32_t limit, std::uint64_t& outside,
                                         std::uint32_t* run, std::uint32_t& count) {
    if (!begin_fill(inode, Pages{page, page + limit}, outside)) return Step::again;
    const std::uint64_t key = key_of(inode, page);
    bool stuck = false;
    const std::uint32_t taken = take(inode, run, frames_.count_absent(key, limit), stuck);
    count = enter(key, run, taken);
    if (count == 0) return give_way(stuck && taken == 0);
    Frames::add_one(counters_.misses, count);
    return {};
  }
  // Their bytes are present, or `error` gives the reason. When done the first stays pinned.
  FERRY_DEVICE_CALL StepResult end_run(std::uint32_t inode, std::uint64_t outside,
                                       const std::uint32_t* run, std::uint32_t count,
                                       std::int64_t error) {
    const std::uint64_t page = page_of(frames_.key(run[0]));
    StepResult result(error);
    // A party that waits for an outdated page looks again, and finds it gone.
    if (error == 0 && outside_.is_outdated(inode, Pages{page, page + count}, outside))
      result = sent_back();
    const bool done = result.step == Step::done;
    if (done) view_.reader(group_).tries = 0;
    for (std::uint32_t i = 0; i < count; ++i) {
      if (!done) frames_.make_orphan(run[i]);
      transfers_.end(run[i], State::filling, done ? State::valid : 0);
      if (!done || i > 0) frames_.unpin(run[i]);
    }
    return result;
  }
  // Enters a run with the frames taken, and returns the surplus; returns how many were entered.
  FERRY_DEVICE std::uint32_t enter(std::uint64_t first_key, const std::uint32_t* frames,
                                   std::uint32_t taken) const {
    const std::uint32_t count = frames_.insert_run(first_key, frames, taken, State::filling);
    FERRY_NO_UNROLL
    for (std::uint32_t i = count; i < taken; ++i)
      frames_.give_back(frames[i]);
    return count;
  }
  FERRY_DEVICE std::uint32_t pieces_of(const std::uint32_t* run, std::uint32_t count,
                                       Piece* pieces) const {
    FERRY_NO_UNROLL
    for (std::uint32_t i = 0; i < count; ++i)
      pieces[i] = Piece{view_.page(run[i]), view_.page_bytes()};
    return merge(pieces, count);
  }

  FERRY_DEVICE_CALL std::int64_t read_run(std::int32_t handle, std::uint64_t page,
                                          const std::uint32_t* run, std::uint32_t count) {
    Piece pieces[run_max];
    const std::uint32_t piece_count = pieces_of(run, count, pieces);
    const std::int64_t got = read_pieces(inode_of(frames_.key(run[0])), handle, pieces, piece_count,
                                         page << view_.layout.page_shift);
    if (got < 0) return got;
    FERRY_NO_UNROLL
    for (std::uint32_t i = 0; i < count; ++i)
      frames_.clear_behind(run[i], static_cast<std::uint64_t>(got), i);
    return 0;
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

  // Reads up to the end of the file: returns bytes, or an error. Continues a short read, so that an
  // error in the middle is never taken for the end. Uses up `pieces`.
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
      const std::uint64_t left = skip(pieces, count, static_cast<std::uint64_t>(got));
      if (left == 0 || got == 0 || at + static_cast<std::uint64_t>(got) >= size(view_, inode))
        return total;
    }
  }

  // Starts flights for the absent ones of these pages. Returns false if no more are possible now.
  FERRY_DEVICE bool start_pages(std::uint32_t inode, std::int32_t handle, Pages pages) {
    const std::uint64_t behind =
        (size(view_, inode) + view_.page_bytes() - 1) >> view_.layout.page_shift;
    const std::uint64_t end = pages.end < behind ? pages.end : behind;
    for (std::uint64_t page = pages.first; page < end;) {
      const std::uint64_t left = end - page < run_max ? end - page : run_max;
      const std::uint32_t absent =
          frames_.count_absent(key_of(inode, page), static_cast<std::uint32_t>(left));
      if (absent == 0) {
        ++page;
        continue;
      }
      const std::uint32_t started = start_fill(inode, handle, page, absent);
      if (started == 0) return false;
      page += started;
    }
    return true;
  }

  // How many more pages may be in flight, approximately, so that enough are neither in flight nor
  // dirty.
  FERRY_DEVICE std::uint32_t room_for_fills() const {
    Shared& shared = view_.shared();
    const std::uint64_t busy = DeviceRef<std::uint64_t>(shared.dirty_pages).load(relaxed) +
                               DeviceRef<std::uint32_t>(shared.flying_pages).load(relaxed);
    const std::uint32_t most = view_.layout.dirty_high;
    return busy < most ? most - static_cast<std::uint32_t>(busy) : 0;
  }
  // One flight for up to `wanted` pages, without waiting. Returns how many.
  FERRY_DEVICE_CALL std::uint32_t start_fill(std::uint32_t inode, std::int32_t handle,
                                             std::uint64_t page, std::uint32_t wanted) {
    std::uint64_t outside = 0;
    if (!outside_.may_fill(inode, Pages{page, page + wanted}, outside)) return 0;
    const std::uint32_t room = room_for_fills();
    if (wanted > room) wanted = room;
    if (wanted == 0) return 0;
    const std::uint32_t index = transfers_.claim_flight(group_, inode);
    if (index == no_flight) return 0;
    Flight& flight = view_.flight(index);
    // Only frames available immediately: a reader must not wait for data it does not need yet.
    const std::uint64_t looks = 4 * std::uint64_t{wanted} + 16;
    const std::uint32_t taken =
        frames_.take_run(flight.frames, wanted, looks, counters_, [](std::uint32_t) {});
    const std::uint32_t count = enter(key_of(inode, page), flight.frames, taken);
    if (count == 0) {
      transfers_.give_back_flight(index);
      return 0;
    }
    flight.count = count;
    flight.inode = inode;
    flight.outside = outside;
    flight.offset = page << view_.layout.page_shift;
    flight.bytes = std::uint64_t{count} << view_.layout.page_shift;
    DeviceRef<std::uint32_t>(flight.kind).store(Flight::reads, relaxed);
    Frames::add_one(counters_.readahead_issued, count);
    Piece pieces[run_max];
    transfers_.start(index, handle, pieces, pieces_of(flight.frames, count, pieces));
    return count;
  }

  const View& view_;
  const Frames& frames_;
  const OutsideCalls& outside_;
  const Transfers<Io>& transfers_;
  WriteBack<Io>& write_back_;
  Io& io_;
  Counters& counters_;
  std::uint32_t group_;
  // Since the call last got a frame.
  std::uint32_t fruitless_ = 0;
  std::uint32_t waits_ = 0;
};

}  // namespace ferry::device::cache
