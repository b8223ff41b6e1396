// Transfers between frames and storage: which party fills or writes a frame, and how others wait.
//
// A transfer belongs to the call that began it, or it is a *flight*: started without a waiting call
// (readahead, background write-back), and ended by the first party that needs one of its frames or
// its record. So nothing depends on a group that computes for a long time.
//
// Invariants, together with those of the frames:
//   X1  Flight.state holds a phase and the flight's number. A party ends it by changing "under way"
//       to "ending" for the number it saw answered: once, and never for a later flight in the same
//       record. The low 32 bits of the number are the sequence number of the flight's request.
//   X2  Between "under way" and its end a flight holds one pin and `filling` or `writing` of each
//       of its frames, and each of them names it in Frame.flight.
//   X3  Frame.flight is set before the request is published, and cleared before the flag is. A
//       party that starts a flight sets it and then looks for `waited`; one that goes to sleep sets
//       `waited` and then looks for a flight.
//   X4  Data that a flight read beside an outside call on one of its pages is discarded.
#pragma once

#include <cerrno>
#include <cstdint>

#include <ferry/device/cache/frames.hpp>
#include <ferry/device/cache/layout.hpp>
#include <ferry/device/cache/outside.hpp>

namespace ferry::device::cache {

// A piece of memory of one request.
struct Piece {
  unsigned char* data = nullptr;
  std::uint64_t bytes = 0;
};

// Joins contiguous pieces; returns how many are left.
FERRY_DEVICE inline std::uint32_t merge(Piece* pieces, std::uint32_t count) {
  std::uint32_t last = 0;
  FERRY_NO_UNROLL
  for (std::uint32_t i = 1; i < count; ++i) {
    if (pieces[last].data + pieces[last].bytes == pieces[i].data) {
      pieces[last].bytes += pieces[i].bytes;
    } else {
      pieces[++last] = pieces[i];
    }
  }
  return count == 0 ? 0 : last + 1;
}

// Removes the first `bytes` bytes of the pieces; returns how many pieces are left.
FERRY_DEVICE inline std::uint32_t skip(Piece*& pieces, std::uint32_t& count, std::uint64_t bytes) {
  for (; count > 0 && bytes >= pieces->bytes; ++pieces, --count)
    bytes -= pieces->bytes;
  if (count > 0) {
    pieces->data += bytes;
    pieces->bytes -= bytes;
  }
  return count;
}

inline constexpr std::uint32_t no_flight = ~0U;

// `Io` reaches the storage, for the calling group:
//   read(int handle, const Piece*, uint32_t count, int64_t offset) -> int64_t
//     bytes, short at the end of the file, or an error
//   write(int handle, const Piece*, uint32_t count, int64_t offset) -> int64_t
//     bytes or an error
//   staging() -> unsigned char*, staging_bytes() -> uint64_t, pull_bytes() -> uint64_t
//     memory that storage reads into as into a page, and how much of it pulls may use
//   start(Flight::Kind, int handle, const Piece*, uint32_t count, int64_t offset, uint32_t flight,
//         uint32_t sequence) -> int
//     0, or an error with nothing started
//   expect(uint32_t flight)
//     call it before start(), and before any wait for the answer
//   answered(uint32_t flight, uint32_t sequence) -> bool
//   loop() -> uint32_t
//     the server loop that answers what start() starts
//   wait(uint32_t flight, uint32_t sequence) -> int
//     until it is answered; or the error if the server is gone
//   result(uint32_t flight) -> int64_t
//     of an answered one
template <class Io>
class Transfers {
 public:
  FERRY_DEVICE Transfers(const View& view, const HostHooks& hooks, const Frames& frames, Io& io,
                         Counters& counters)
      : view_(view), hooks_(hooks), frames_(frames), io_(io), counters_(counters) {}

  // ---- waiting ---------------------------------------------------------------------------------

  // Waits until none of `flags` is set; returns the state then. The caller has a pin, and the flag
  // is cleared after a transfer bounded by the server's life.
  FERRY_DEVICE_CALL std::uint64_t wait_while(std::uint32_t frame, std::uint64_t flags) const {
    Frame& waited = view_.frame(frame);
    for (std::uint64_t looks = 0;; ++looks) {
      const std::uint64_t now = frames_.state(frame).load(acquire);
      if ((now & flags) == 0) return now;
      const std::uint32_t flight = DeviceRef<std::uint32_t>(waited.flight).load(acquire);
      if (flight != 0) {
        attend(flight - 1);
        continue;
      }
      if (looks < looks_before_parking) {
        pause_briefly();
        continue;
      }
      sleep_while(frame, flags, looks - looks_before_parking);
    }
  }
  // After this many failed looks at something without notification, like a writer, which ends soon
  // unless its range needs a write-back first.
  FERRY_DEVICE_CALL void look_later(std::uint32_t frame, std::uint32_t looks) const {
    if (looks < looks_before_parking) return yield(hooks_);
    std::uint32_t& word = view_.frame(frame).wake;
    park(hooks_, word, DeviceRef<std::uint32_t>(word).load(relaxed),
         next_sleep_ns(nap_ns, looks - looks_before_parking, longest_nap_ns));
  }
  // Clears `flags` and sets `also`; skips the wake-up without waiters.
  FERRY_DEVICE void end(std::uint32_t frame, std::uint64_t flags, std::uint64_t also = 0) const {
    std::uint64_t now = frames_.state(frame).load(relaxed);
    while (!frames_.state(frame).compare_exchange_weak(now, (now & ~(flags | State::waited)) | also,
                                                       acq_rel, relaxed)) {
    }
    if ((now & State::waited) == 0 && view_.switches.quiet_wakeups) return;
    std::uint32_t& word = view_.frame(frame).wake;
    DeviceRef<std::uint32_t>(word).fetch_add(1, release);
    wake(hooks_, word);
  }

  // ---- beginning -------------------------------------------------------------------------------

  // Sets `flag` once none of `against` is set and, for a filling, there are no writers. Returns
  // false if the page has become an orphan. The caller has a pin.
  FERRY_DEVICE bool begin(std::uint32_t frame, std::uint64_t flag) const {
    constexpr std::uint64_t transfers = State::filling | State::writing;
    const std::uint64_t against =
        transfers | (flag == State::filling ? State::writers : std::uint64_t{0});
    for (std::uint32_t looks = 0;;) {
      std::uint64_t now = wait_while(frame, transfers);
      if ((now & State::orphan) != 0) return false;
      if ((now & against) != 0) {
        look_later(frame, looks++);
        continue;
      }
      if (frames_.state(frame).compare_exchange_weak(now, now | flag, acq_rel, relaxed))
        return true;
    }
  }
  // Sets `writing` if the page is dirty and not being transferred: for callers that must not wait,
  // because others may wait for their pages.
  FERRY_DEVICE bool try_begin_writing(std::uint32_t frame) const {
    constexpr std::uint64_t busy = State::filling | State::writing | State::orphan;
    std::uint64_t now = frames_.state(frame).load(acquire);
    while ((now & busy) == 0 && (now & State::dirty) != 0) {
      if (frames_.state(frame).compare_exchange_weak(now, now | State::writing, acq_rel, acquire))
        return true;
    }
    return false;
  }

  // F2. Returns false if the page has become an orphan. The caller has a pin.
  FERRY_DEVICE bool begin_writing_to(std::uint32_t frame) const {
    for (;;) {
      // seq_cst: see PageCache::write_page().
      const std::uint64_t before = frames_.state(frame).fetch_add(State::one_writer, seq_cst);
      if ((before & (State::filling | State::orphan)) == 0) return true;
      frames_.state(frame).fetch_sub(State::one_writer, release);
      if ((before & State::orphan) != 0) return false;
      wait_while(frame, State::filling);
    }
  }
  FERRY_DEVICE void end_writing_to(std::uint32_t frame) const {
    frames_.state(frame).fetch_sub(State::one_writer, release);
  }

  // ---- flights ---------------------------------------------------------------------------------

  // Whether a flight of a storage that has `own` of the `all` in flight may be claimed. A hanging
  // storage must leave some to others: each gets three quarters of what the ones before it leave,
  // and the last record only as its first.
  FERRY_DEVICE bool has_share(std::uint32_t own, std::uint32_t all) const {
    const std::uint32_t count = view_.layout.geometry.flights;
    if (all >= count) return false;
    return own == 0 || own < 3 * (count - all - 1);
  }
  // Approximately.
  FERRY_DEVICE bool may_claim(std::uint32_t inode) const {
    Shared& shared = view_.shared();
    const std::uint32_t own = cache::storage(view_, inode);
    return has_share(DeviceRef<std::uint32_t>(shared.flights_of[own]).load(relaxed),
                     DeviceRef<std::uint32_t>(shared.flights).load(relaxed));
  }
  // A record for a flight of this file, or no_flight if its storage has its maximum in flight. Ends
  // answered ones.
  FERRY_DEVICE_CALL std::uint32_t claim_flight(std::uint32_t from, std::uint32_t inode) const {
    const std::uint32_t count = view_.layout.geometry.flights;
    const std::uint32_t own = cache::storage(view_, inode);
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint32_t index = (from + i) % count;
      std::uint64_t now = state(index).load(acquire);
      if (phase(now) == Flight::under_way && io_.answered(index, sequence(now))) {
        finish(index, now, 0);
        now = state(index).load(acquire);
      }
      if (phase(now) != Flight::free || !take_share(own)) continue;
      std::uint64_t next = number(now) + 1;
      if (static_cast<std::uint32_t>(next) == 0) ++next;  // 0 means "no answer wanted"
      if (state(index).compare_exchange_strong(now, word(next, Flight::claimed), acq_rel,
                                               relaxed)) {
        DeviceRef<std::uint32_t>(view_.flight(index).storage).store(own, relaxed);
        return index;
      }
      give_back_share(own);
    }
    return no_flight;
  }
  FERRY_DEVICE void give_back_flight(std::uint32_t index) const {
    const std::uint32_t storage = view_.flight(index).storage;
    state(index).store(word(number(state(index).load(relaxed)), Flight::free), release);
    give_back_share(storage);
  }
  // Starts the claimed flight; its record describes the transfer, and `handle` names the open file.
  // If it cannot start, it ends immediately with that error.
  FERRY_DEVICE_CALL void start(std::uint32_t index, std::int32_t handle, const Piece* pieces,
                               std::uint32_t count) const {
    Flight& flight = view_.flight(index);
    if (flight.kind == Flight::reads)
      DeviceRef<std::uint32_t>(view_.shared().flying_pages).fetch_add(flight.count, relaxed);
    for (std::uint32_t i = 0; i < flight.count; ++i)
      name_flight(flight.frames[i], index + 1);
    const std::uint64_t claimed = state(index).load(relaxed);
    const std::uint64_t started = word(number(claimed), Flight::under_way);
    DeviceRef<std::uint32_t>(flight.loop).store(io_.loop(), relaxed);
    io_.expect(index);
    // Before the request: from then on an answer may arrive and be looked for.
    state(index).store(started, release);
    const int error = io_.start(static_cast<Flight::Kind>(flight.kind), handle, pieces, count,
                                static_cast<std::int64_t>(flight.offset), index, sequence(started));
    if (error != 0) finish(index, started, error);
  }
  // Waits for the flight of any party, and ends it unless another party does.
  FERRY_DEVICE_CALL void attend(std::uint32_t index) const {
    const std::uint64_t seen = state(index).load(acquire);
    if (phase(seen) != Flight::under_way) return yield(hooks_, 200);  // soon it is, or is ended
    finish(index, seen, io_.wait(index, sequence(seen)));
  }
  // Waits for some write-back of the file's storage; for callers that must not make more pages
  // dirty. Returns false if there is none.
  FERRY_DEVICE_CALL bool attend_some_write_back(std::uint32_t from, std::uint32_t inode) const {
    const std::uint32_t count = view_.layout.geometry.flights;
    const std::uint32_t own = cache::storage(view_, inode);
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::uint32_t index = (from + i) % count;
      const std::uint64_t seen = state(index).load(acquire);
      Flight& flight = view_.flight(index);
      if (phase(seen) != Flight::under_way ||
          DeviceRef<std::uint32_t>(flight.kind).load(relaxed) == Flight::reads ||
          DeviceRef<std::uint32_t>(flight.storage).load(acquire) != own ||
          state(index).load(relaxed) != seen)  // it was another flight's
        continue;
      finish(index, seen, io_.wait(index, sequence(seen)));
      return true;
    }
    return false;
  }

  // Ends answered flights.
  FERRY_DEVICE_CALL void finish_answered() const {
    for (std::uint32_t index = 0; index < view_.layout.geometry.flights; ++index) {
      const std::uint64_t now = state(index).load(acquire);
      if (phase(now) == Flight::under_way && io_.answered(index, sequence(now)))
        finish(index, now, 0);
    }
  }
  // Ends every flight now in flight.
  FERRY_DEVICE_CALL void settle() const {
    for (std::uint32_t index = 0; index < view_.layout.geometry.flights; ++index)
      if (phase(state(index).load(acquire)) == Flight::under_way) attend(index);
  }

 private:
  static constexpr std::uint32_t looks_before_parking = 200;
  static constexpr std::uint64_t park_slice_ns = 10'000'000;
  static constexpr std::uint64_t nap_ns = 100'000;
  static constexpr std::uint64_t longest_nap_ns = 10'000'000;

  FERRY_DEVICE DeviceRef<std::uint64_t> state(std::uint32_t index) const {
    return DeviceRef<std::uint64_t>(view_.flight(index).state);
  }
  FERRY_DEVICE static std::uint32_t phase(std::uint64_t state) {
    return static_cast<std::uint32_t>(state & 3);
  }
  FERRY_DEVICE static std::uint64_t number(std::uint64_t state) { return state >> 2; }
  FERRY_DEVICE static std::uint32_t sequence(std::uint64_t state) {
    return static_cast<std::uint32_t>(number(state));
  }
  FERRY_DEVICE static std::uint64_t word(std::uint64_t number, Flight::Phase phase) {
    return (number << 2) | phase;
  }
  // X3. A party that slept before it could know of the flight looks again. end() changes the state
  // word either before the sleeper's `waited`, who then sees the flight, or after it.
  FERRY_DEVICE void name_flight(std::uint32_t frame, std::uint32_t flight) const {
    DeviceRef<std::uint32_t>(view_.frame(frame).flight).store(flight, release);
    end(frame, 0);
  }

  // X1.
  FERRY_DEVICE_CALL void finish(std::uint32_t index, std::uint64_t seen, int error) const {
    std::uint64_t expected = seen;
    if (!state(index).compare_exchange_strong(expected, word(number(seen), Flight::ending), acq_rel,
                                              relaxed))
      return;
    const Flight& flight = view_.flight(index);
    const std::int64_t result = error != 0 ? error : io_.result(index);
    if (flight.kind != Flight::reads) {
      finish_write(flight, result);
    } else {
      finish_fill(flight, result);
      DeviceRef<std::uint32_t>(view_.shared().flying_pages).fetch_sub(flight.count, relaxed);
    }
    const std::uint32_t storage = flight.storage;
    state(index).store(word(number(seen), Flight::free), release);
    give_back_share(storage);
  }

  // Counted before checking, so that two simultaneous callers may both find too many, but never too
  // few.
  FERRY_DEVICE bool take_share(std::uint32_t storage) const {
    Shared& shared = view_.shared();
    const std::uint32_t own =
        DeviceRef<std::uint32_t>(shared.flights_of[storage]).fetch_add(1, relaxed);
    const std::uint32_t all = DeviceRef<std::uint32_t>(shared.flights).fetch_add(1, relaxed);
    if (has_share(own, all)) return true;
    give_back_share(storage);
    return false;
  }
  FERRY_DEVICE void give_back_share(std::uint32_t storage) const {
    Shared& shared = view_.shared();
    DeviceRef<std::uint32_t>(shared.flights).fetch_sub(1, relaxed);
    DeviceRef<std::uint32_t>(shared.flights_of[storage]).fetch_sub(1, relaxed);
  }

  FERRY_DEVICE void finish_fill(const Flight& flight, std::int64_t result) const {
    // Short before the end of the file: there is an error behind it, which a reader may have.
    const bool whole = result == static_cast<std::int64_t>(flight.bytes) ||
                       (result >= 0 && flight.offset + static_cast<std::uint64_t>(result) >=
                                           size(view_, flight.inode));
    const std::uint64_t first = flight.offset >> view_.layout.page_shift;
    const bool usable = whole && !OutsideCalls(view_, hooks_)
                                      .is_outdated(flight.inode, Pages{first, first + flight.count},
                                                   flight.outside);
    if (result >= 0) {
      Frames::add_one(counters_.fills);
      Frames::add_one(counters_.fill_bytes, static_cast<std::uint64_t>(result));
    }
    for (std::uint32_t i = 0; i < flight.count; ++i) {
      const std::uint32_t frame = flight.frames[i];
      if (usable) {
        frames_.clear_behind(frame, static_cast<std::uint64_t>(result), i);
      } else {
        frames_.make_orphan(frame);
        Frames::add_one(counters_.readahead_wasted);
      }
      DeviceRef<std::uint32_t>(view_.frame(frame).flight).store(0, release);
      end(frame, State::filling, usable ? State::valid | State::ahead : 0);
      frames_.unpin(frame);
    }
  }

  // A short write keeps what it wrote, so that the next one begins at the cause and finds it: where
  // it began anew, a storage whose writes are all short would never get the rest.
  FERRY_DEVICE void finish_write(const Flight& flight, std::int64_t result) const {
    Inode& inode = view_.inode(flight.inode);
    if (result == 0) result = -EIO;
    std::uint64_t left = result > 0 ? static_cast<std::uint64_t>(result) : 0;
    if (left == flight.bytes || result < 0) Frames::note_result(inode, result < 0 ? result : 0);
    if (left > 0) {
      Frames::add_one(counters_.write_backs);
      Frames::add_one(counters_.write_back_bytes, left);
    }
    for (std::uint32_t i = 0; i < flight.count; ++i) {
      Range range = flight.ranges[i];
      const std::uint32_t bytes = range.end - range.begin;
      const std::uint32_t written = left < bytes ? static_cast<std::uint32_t>(left) : bytes;
      left -= written;
      range.begin += written;
      if (written < bytes) frames_.put_back_range(flight.frames[i], range, inode);
      frames_.written_back(flight.frames[i], 1, inode);
      DeviceRef<std::uint32_t>(view_.frame(flight.frames[i]).flight).store(0, release);
      end(flight.frames[i], State::writing);
      frames_.unpin(flight.frames[i]);
    }
  }

  // Until one of `flags` is cleared, or for a while.
  FERRY_DEVICE void sleep_while(std::uint32_t frame, std::uint64_t flags,
                                std::uint64_t sleeps) const {
#if defined(__CUDA_ARCH__)
    (void)sleeps;
    yield(hooks_);
#else
    // The party that ends the transfer clears the flag and then grows the word, if it finds
    // `waited`.
    Frame& waited = view_.frame(frame);
    const std::uint32_t seen = DeviceRef<std::uint32_t>(waited.wake).load(acquire);
    if ((frames_.state(frame).fetch_or(State::waited, acq_rel) & flags) == 0) return;
    if (DeviceRef<std::uint32_t>(waited.flight).load(acquire) != 0) return;  // X3
    park(hooks_, waited.wake, seen, next_sleep_ns(park_slice_ns, sleeps));
#endif
  }

  const View& view_;
  const HostHooks& hooks_;
  const Frames& frames_;
  Io& io_;
  Counters& counters_;
};

}  // namespace ferry::device::cache
