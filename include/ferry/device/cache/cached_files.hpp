// Open files and the page cache: the file behind a handle, and coherence with calls that bypass the
// cache.
//
// Only a group's leader calls these functions. Consistency is close-to-open: a file's last close
// writes its pages back, so that other processes see them. Every open asks for the file's version
// and drops its pages unless they were read at that version; if the storage reports none, the last
// close drops them.
#pragma once

#include <cerrno>
#include <cstdint>

#include <ferry/device/cache/inode_index.hpp>
#include <ferry/device/cache/page_cache.hpp>
#include <ferry/device/control.hpp>
#include <ferry/device/requester.hpp>

namespace ferry::device::cache {

// Reaches the storage through the group's request ring. Pieces lie in the arena.
class RingIo {
 public:
  FERRY_DEVICE explicit RingIo(Requester& requester) : requester_(requester) {}

  FERRY_DEVICE std::int64_t read(std::int32_t handle, const Piece* pieces, std::uint32_t count,
                                 std::int64_t offset) {
    return transfer(TransferDirection::read, handle, pieces, count, offset);
  }
  FERRY_DEVICE std::int64_t write(std::int32_t handle, const Piece* pieces, std::uint32_t count,
                                  std::int64_t offset) {
    return transfer(TransferDirection::write, handle, pieces, count, offset);
  }

  // Where the group's lanes can fetch from, and how much they may pull; 0: nothing.
  FERRY_DEVICE unsigned char* staging() const {
    return requester_.arena().staging(requester_.group());
  }
  FERRY_DEVICE std::uint64_t staging_bytes() const {
    return requester_.arena().layout.geometry.staging_bytes;
  }
  FERRY_DEVICE std::uint64_t pull_bytes() const {
    const std::uint64_t wanted = requester_.context().pull_bytes;
    return wanted < staging_bytes() ? wanted : staging_bytes();
  }

  // ---- transfers that no call waits for --------------------------------------------------------

  FERRY_DEVICE std::uint32_t loop() const { return requester_.loop(); }
  // Whether every pending answer will come.
  FERRY_DEVICE bool server_runs() const {
    const ArenaView& arena = requester_.arena();
    for (std::uint32_t i = 0; i < arena.layout.geometry.loops; ++i) {
      const LoopPhase phase = SystemRef<LoopPhase>(arena.loop_state(i).phase).load(acquire);
      if (phase != LoopPhase::running) return false;
    }
    return true;
  }
  // Waiters for the last answer have left `parked` set. Its server may have stored the answer and
  // not yet looked at `parked`, and then finds it clear: the party that clears it wakes.
  FERRY_DEVICE void expect(std::uint32_t flight) {
    SystemRef<std::uint32_t> parked(cell(flight).parked);
    if (parked.load(relaxed) == 0 || parked.exchange(0, seq_cst) == 0) return;
    wake(requester_.context().hooks, cell(flight).sequence);
  }
  FERRY_DEVICE int start(Flight::Kind kind, std::int32_t handle, const Piece* pieces,
                         std::uint32_t count, std::int64_t offset, std::uint32_t flight,
                         std::uint32_t sequence) {
    const ArenaView& arena = requester_.arena();
    static_assert(run_max <= shared_extents_max);
    Request request =
        request_of(kind == Flight::reads ? TransferDirection::read : TransferDirection::write,
                   handle, pieces, count, offset, arena.shared_extents(flight));
    if (kind == Flight::writes_for_sync) request.flags = flag_sync_follows;
    request.cell = arena.shared_cell(flight);
    request.sequence = sequence;
    return requester_.submit_shared(request);
  }
  FERRY_DEVICE bool answered(std::uint32_t flight, std::uint32_t sequence) const {
    return SystemRef<std::uint32_t>(cell(flight).sequence).load(acquire) == sequence;
  }
  FERRY_DEVICE int wait(std::uint32_t flight, std::uint32_t sequence) {
    const std::uint32_t loop =
        DeviceRef<std::uint32_t>(requester_.context().cache.flight(flight).loop).load(relaxed);
    return requester_.wait_shared(cell(flight), loop, sequence);
  }
  FERRY_DEVICE std::int64_t result(std::uint32_t flight) const { return cell(flight).result; }

 private:
  FERRY_DEVICE AnswerCell& cell(std::uint32_t flight) const {
    const ArenaView& arena = requester_.arena();
    return arena.cell(arena.shared_cell(flight));
  }

  // `extents`: where to put the list of several pieces.
  FERRY_DEVICE Request request_of(TransferDirection direction, std::int32_t handle,
                                  const Piece* pieces, std::uint32_t count, std::int64_t offset,
                                  BufferExtent* extents) const {
    const ArenaView& arena = requester_.arena();
    const bool reads = direction == TransferDirection::read;
    if (count == 1)
      return transfer_request(arena, reads ? Opcode::read : Opcode::write, handle, pieces[0].data,
                              pieces[0].bytes, offset);
    FERRY_NO_UNROLL
    for (std::uint32_t i = 0; i < count; ++i)
      extents[i] = BufferExtent{arena.offset_of(pieces[i].data), pieces[i].bytes};
    return transfer_request(arena, reads ? Opcode::read_vector : Opcode::write_vector, handle,
                            extents, count, offset);
  }
  FERRY_DEVICE std::int64_t transfer(TransferDirection direction, std::int32_t handle,
                                     const Piece* pieces, std::uint32_t count,
                                     std::int64_t offset) {
    auto* extents = reinterpret_cast<BufferExtent*>(requester_.arena().scratch(requester_.group()));
    Request request = request_of(direction, handle, pieces, count, offset, extents);
    return requester_.call(request).result;
  }

  Requester& requester_;
};

class CachedFiles {
 public:
  FERRY_DEVICE explicit CachedFiles(Requester& requester)
      : view_(requester.context().cache),
        hooks_(requester.context().hooks),
        io_(requester),
        index_(view_),
        pages_(view_, hooks_, io_, requester.group()) {}
  CachedFiles(const CachedFiles&) = delete;
  CachedFiles& operator=(const CachedFiles&) = delete;

  FERRY_DEVICE PageCache<RingIo>& pages() { return pages_; }

  // The entry of a cached file, or null: closed, not a regular file, or no cache.
  FERRY_DEVICE OpenFile* find(std::int32_t handle) const {
    if (view_.base == nullptr || handle <= 0) return nullptr;
    OpenFile& entry = view_.open_file(handle);
    const bool same = DeviceRef<std::int32_t>(entry.handle).load(acquire) == handle;
    return same ? &entry : nullptr;
  }
  // Whether a close has removed the handle from the cache. Its later calls are refused: the server
  // may not know of the close yet, and past the cache they would miss or bypass other handles'
  // dirty data.
  FERRY_DEVICE bool has_left(std::int32_t handle) const {
    if (view_.base == nullptr || handle <= 0) return false;
    return DeviceRef<std::int32_t>(view_.open_file(handle).handle).load(acquire) == -handle;
  }
  // The number of the file with this `status`, while it is open.
  FERRY_DEVICE bool inode_of_file(const FileStatus& status, std::uint32_t& id) const {
    if (view_.base == nullptr) return false;
    const SpinLock lock(view_.shared().open_lock, hooks_);
    const Inode* inode = index_.find(status.inode, status.device);
    if (inode == nullptr || (inode->references == 0 && inode->busy == 0)) return false;
    id = inode->id;
    return true;
  }

  // Enters a newly opened `handle`; revalidate() or truncate() must follow. Returns false if every
  // record is in use (there are as many as handles), or the file is not cached: not regular, or of
  // a size that is not its amount of data.
  FERRY_DEVICE_CALL bool attach(std::int32_t handle, std::uint32_t access,
                                const FileStatus& status) {
    if (view_.base == nullptr) return false;
    DeviceRef<std::int32_t>(view_.open_file(handle).handle).store(0, release);
    if (!is_regular(status) || status.generated != 0) return false;
    // Waits only for an open or a close of the same file in progress.
    for (std::uint64_t sleeps = 0;;) {
      Inode* inode = nullptr;
      Joining joining;
      {
        const SpinLock lock(view_.shared().open_lock, hooks_);
        joining = join(handle, access, status, inode);
      }
      if (joining == Joining::refused) return false;
      if (joining == Joining::joined) return true;
      if (joining == Joining::later) {
        rest_while_busy(*inode, sleeps++);
        continue;
      }
      forget_former(*inode, status);
      end_busy(*inode, [&] { enter(*inode, handle, access); });
      return true;
    }
  }

  // Some writable open handle of the file, or 0.
  FERRY_DEVICE std::int32_t writer(const OpenFile& entry) const {
    return DeviceRef<std::int32_t>(view_.inode(entry.inode).write_handle).load(acquire);
  }

  // Before the handle is closed: writes back, and passes write-back on to another handle of the
  // file. What the last writable handle cannot write is lost and reported, and the file's size is
  // then the storage's, from `ask(status)` while the handle is open. Returns the result of flush().
  template <class Ask>
  FERRY_DEVICE_CALL int detach(OpenFile& entry, std::int32_t handle, Ask ask) {
    const std::uint32_t id = entry.inode;
    Inode& inode = view_.inode(id);
    int error = flush(entry);
    // The server refuses this call, too: it did not happen, and the runtime's end writes dirty
    // data, or tries again.
    if (error == -ESHUTDOWN && !pages_.is_clean(id)) return error;
    const Leaving leaving = leave(entry, handle, inode);
    if (leaving == Leaving::closed_already) return -EBADF;
    if (leaving == Leaving::one_of_many) return error;
    const bool last = leaving == Leaving::last;
    // Calls of other threads that began before may have written since the flush.
    pages_.begin_outside(id);
    const auto late = static_cast<int>(pages_.flush(id));
    if (error == 0) error = late;
    if (late != 0 || (last && inode.version == 0)) {
      pages_.drop(id);
      DeviceRef<std::uint64_t>(inode.version).store(0, relaxed);
      FileStatus status{};
      if (!last && ask(status) == 0) pages_.set_size(id, status.size_bytes);
    }
    DeviceRef<std::int32_t> write_handle(inode.write_handle);
    if (write_handle.load(relaxed) == handle) write_handle.store(0, release);
    if (last) {
      // From now on a party with the old number writes nothing.
      inode.kept_id = id;
      DeviceRef<std::uint32_t>(inode.id).store(next_id(id), release);
    }
    pages_.end_outside(id);
    end_busy(inode, [] {});
    return error;
  }

  // Whether the range exceeds the cacheable part: then the host executes the transfer, at any
  // placement.
  FERRY_DEVICE bool ends_past_the_cache(std::uint64_t bytes, std::int64_t offset) const {
    return static_cast<std::uint64_t>(offset) + bytes > view_.bytes_max();
  }
  // Why a transfer of this range is refused, or 0. `access`: what it needs of the handle.
  FERRY_DEVICE static int refusal(const OpenFile& entry, std::uint32_t access, std::uint64_t bytes,
                                  std::int64_t offset) {
    constexpr std::uint64_t offset_max = 0x7fffffffffffffff;
    if ((entry.access & access) == 0) return -EBADF;
    const bool fits = offset >= 0 && bytes <= offset_max - static_cast<std::uint64_t>(offset);
    return fits ? 0 : -EINVAL;
  }

  FERRY_DEVICE std::int64_t read(const OpenFile& entry, std::int32_t handle, void* to,
                                 std::uint64_t bytes, std::int64_t offset) {
    if (const int error = refusal(entry, OpenFile::readable, bytes, offset); error != 0)
      return error;
    return pages_.read(entry.inode, handle, to, bytes, static_cast<std::uint64_t>(offset));
  }
  FERRY_DEVICE std::int64_t write(const OpenFile& entry, const void* from, std::uint64_t bytes,
                                  std::int64_t offset) {
    if (const int error = refusal(entry, OpenFile::writable, bytes, offset); error != 0)
      return error;
    const auto at = static_cast<std::uint64_t>(offset);
    const std::uint64_t end = view_.size_of(at + bytes);
    if (end <= at && bytes > 0) return -EFBIG;
    return pages_.write(entry.inode, from, bytes > 0 ? end - at : 0, at);
  }

  // The two halves of a write to one page (PageCache::begin_write).
  FERRY_DEVICE StepResult begin_write(const OpenFile& entry, std::uint64_t bytes,
                                      std::int64_t offset, WriteAccess& access) {
    if (const int error = refusal(entry, OpenFile::writable, bytes, offset); error != 0)
      return StepResult(error);
    const auto at = static_cast<std::uint64_t>(offset);
    if (at >= view_.bytes_max()) return StepResult(-EFBIG);
    return pages_.begin_write(entry.inode, at, bytes, access);
  }
  FERRY_DEVICE StepResult end_write(const OpenFile& entry, std::int64_t offset,
                                    const WriteAccess& access) {
    return pages_.end_write(entry.inode, static_cast<std::uint64_t>(offset), access);
  }

  FERRY_DEVICE int prefetch(const OpenFile& entry, std::int32_t handle, std::int64_t offset,
                            std::uint64_t bytes) {
    if (const int error = refusal(entry, OpenFile::readable, bytes, offset); error != 0)
      return error;
    pages_.prefetch(entry.inode, handle, static_cast<std::uint64_t>(offset), bytes);
    return 0;
  }
  FERRY_DEVICE StepResult hold(const OpenFile& entry, std::int32_t handle, std::int64_t offset,
                               std::uint64_t bytes, PinnedView& view, Pull* pull) {
    if (const int error = refusal(entry, OpenFile::readable, bytes, offset); error != 0)
      return StepResult(error);
    const auto at = static_cast<std::uint64_t>(offset);
    // There may be bytes, but no page for them.
    const std::uint64_t end = view_.bytes_max();
    if (at >= end && pages_.size(entry.inode) == end) return StepResult(-EOPNOTSUPP);
    return pages_.hold(entry.inode, handle, at, bytes, view, pull);
  }

  // After an open: drops the file's pages unless they have its version. `status` is the storage's
  // of this open; `ask(status)` asks again, and returns 0 or an error. Pages that cannot be written
  // back stay, and with them the others.
  //
  // Pages of the version that the file had after the open began are what the open is to see. So
  // opens of an unchanged file need no turn among the outside calls, and of many opens that wait
  // for one, the first is enough. Where versions differ, another thread may have written and closed
  // since `status`: it is asked again, in turn.
  template <class Ask>
  FERRY_DEVICE int revalidate(const OpenFile& entry, const FileStatus& status, Ask ask) {
    const std::uint32_t id = entry.inode;
    DeviceRef<std::uint64_t> version(view_.inode(id).version);
    const auto is_current = [&] {
      return status.version != 0 && status.version == version.load(acquire);
    };
    if (!pages_.begin_outside_unless(id, Pages{}, Pages{}, is_current)) return 0;
    FileStatus now{};
    int error = ask(now);
    const bool same = now.version != 0 && now.version == version.load(relaxed);
    if (error == 0 && !same) {
      version.store(0, relaxed);
      if (pages_.flush(id) == 0) {
        // Again: for the size including recent writes.
        pages_.drop(id);
        error = ask(now);
        if (error == 0) {
          pages_.set_size(id, now.size_bytes);
          version.store(now.version, release);  // with the size
        }
      }
    }
    pages_.end_outside(id);
    return error;
  }
  // An outside call that drops the file's pages, when they are not needed soon. Returns 0 or the
  // error of a write-back; then the pages stay.
  FERRY_DEVICE int evict(const OpenFile& entry) {
    const std::uint32_t id = entry.inode;
    pages_.begin_outside(id);
    const auto error = static_cast<int>(pages_.flush(id));
    if (error == 0) pages_.drop(id);
    pages_.end_outside(id);
    return error;
  }

  // Reports again what flush() last reported to the handle.
  FERRY_DEVICE void report_again(OpenFile& entry) {
    std::uint32_t& count = view_.inode(entry.inode).write_errors;
    const std::uint32_t errors = DeviceRef<std::uint32_t>(count).load(acquire);
    DeviceRef<std::uint32_t>(entry.errors_reported).store(errors - 1, relaxed);
  }
  // Writes back dirty data. Reports every write-back error since this handle's last report, once.
  // `sync_follows`: the storage may start writing to its medium.
  FERRY_DEVICE_CALL int flush(OpenFile& entry, bool sync_follows = false) {
    Inode& inode = view_.inode(entry.inode);
    auto error = static_cast<int>(pages_.flush(entry.inode, {}, sync_follows));
    const std::uint32_t errors = DeviceRef<std::uint32_t>(inode.write_errors).load(acquire);
    DeviceRef<std::uint32_t> reported(entry.errors_reported);
    if (reported.exchange(errors, relaxed) != errors && error == 0) {
      error = -DeviceRef<std::int32_t>(inode.write_error).load(relaxed);
    }
    return error;
  }

  // An outside call that truncates or extends the file; `truncate()` does it in the storage and
  // returns 0 or an error. Dirty data behind the new end is still written first: otherwise a
  // write-back in flight would extend the file again.
  template <class Truncate>
  FERRY_DEVICE int truncate(const OpenFile& entry, std::uint64_t size_bytes, Truncate truncate) {
    // Read once: the handle may be closed meanwhile, and its entry reused.
    const std::uint32_t id = entry.inode;
    const Pages changed{size_bytes >> view_.layout.page_shift, Pages{}.end};
    pages_.begin_outside(id, Pages{}, changed);
    const bool clean = pages_.flush(id) == 0;
    int error = truncate();
    if (error == 0) {
      pages_.resize(id, size_bytes);
      if (!clean) error = truncate();
    }
    pages_.end_outside(id);
    return error;
  }

  // Ends cached writes with -ESHUTDOWN from now on and writes back every file, for the end of a
  // runtime. Returns 0 or the last error. Hanging storages come last: one with transfers in flight
  // is left alone until these have ended, unless their end would never be reported.
  FERRY_DEVICE_CALL int stop() {
    DeviceRef<std::uint32_t> stopping(view_.shared().stopping);
    // seq_cst, as in PageCache::write_page(): a write that misses this is seen on its frame.
    stopping.store(1, seq_cst);
    for (std::uint32_t i = 0; i < view_.layout.geometry.inodes; ++i)
      pages_.begin_flush(DeviceRef<std::uint32_t>(view_.inode(i).id).load(acquire));
    int error = 0;
    for (std::uint32_t left = (1U << storages_max) - 1; left != 0;) {
      const std::uint32_t busy = io_.server_runs() ? left & pages_.busy_storages() : 0;
      for (std::uint32_t storage = 0; storage < storages_max; ++storage) {
        if (((left & ~busy) >> storage & 1) == 0) continue;
        if (const int result = stop_storage(storage); result != 0) error = result;
      }
      left = busy;
      if (left != 0) park(hooks_, view_.shared().stopping, 1, stop_slice_ns);
    }
    return error;
  }
  // Writes back the dirty data of every file. Returns 0 or the last error.
  FERRY_DEVICE int write_back_all() {
    return flush_files([](std::uint32_t) { return true; });
  }

 private:
  enum class Joining : std::uint8_t { refused, joined, later, first };
  // Under open_lock. `later`: the record is busy. `first`: it is busy now, and the file's;
  // forget_former() and enter() must follow.
  FERRY_DEVICE Joining join(std::int32_t handle, std::uint32_t access, const FileStatus& status,
                            Inode*& inode) const {
    inode = index_.find(status.inode, status.device);
    if (inode == nullptr) {
      inode = begin_use(status);
      return inode == nullptr ? Joining::refused : Joining::first;
    }
    if (inode->busy != 0) {
      inode->busy = busy_and_waited;
      return Joining::later;
    }
    if (inode->references == 0) {
      index_.use_again(*inode);
      DeviceRef<std::uint32_t>(inode->id).store(inode->kept_id, release);
    }
    enter(*inode, handle, access);
    return Joining::joined;
  }
  // Under open_lock.
  FERRY_DEVICE void enter(Inode& inode, std::int32_t handle, std::uint32_t access) const {
    ++inode.references;
    DeviceRef<std::int32_t> write_handle(inode.write_handle);
    if (writes_back(access)) {
      ++inode.writers;
      if (write_handle.load(relaxed) == 0) write_handle.store(handle, release);
    }
    OpenFile& entry = view_.open_file(handle);
    DeviceRef<std::uint32_t>(entry.inode).store(inode.id, release);
    entry.access = access;
    entry.errors_reported = DeviceRef<std::uint32_t>(inode.write_errors).load(acquire);
    DeviceRef<std::int32_t>(entry.handle).store(handle, release);
  }
  // Under open_lock. A record for a file that is not open, now `busy`: one without pages, or one
  // whose pages must go. Null: all are in use.
  FERRY_DEVICE Inode* begin_use(const FileStatus& status) const {
    Inode* const found = index_.take(status.inode, status.device);
    if (found == nullptr) return nullptr;
    found->busy = 1;
    // The record now has the file's size (inode_of_file).
    DeviceRef<std::uint64_t>(found->size_bytes).store(view_.size_of(status.size_bytes), release);
    return found;
  }
  // For a busy record: drops its former file's pages; it is the new file's.
  FERRY_DEVICE void forget_former(Inode& inode, const FileStatus& status) {
    DeviceRef<std::uint64_t> version(inode.version);
    if (version.load(relaxed) != 0) pages_.forget(inode.kept_id);
    version.store(0, relaxed);
    inode.tuning = view_.tunings.find(status.device);
    DeviceRef<std::uint32_t>(inode.storage).store(storage_of(status.device), relaxed);
    // Relaxed: a party that looks for frames to evict may still use the former file, and then skips
    // a page or tries one in vain.
    DeviceRef<std::int32_t>(inode.write_error).store(0, relaxed);
    DeviceRef<std::uint32_t>(inode.write_errors).store(0, relaxed);
    DeviceRef<std::int32_t>(inode.failing).store(0, relaxed);
    DeviceRef<std::uint64_t>(inode.page_end).store(0, release);
  }

  enum class Leaving : std::uint8_t { closed_already, one_of_many, last_writer, last };
  // Removes the handle from the file. The record is `busy` if the rest takes long.
  FERRY_DEVICE_CALL Leaving leave(OpenFile& entry, std::int32_t handle, Inode& inode) {
    for (std::uint64_t sleeps = 0;; ++sleeps) {
      {
        const SpinLock lock(view_.shared().open_lock, hooks_);
        if (DeviceRef<std::int32_t>(entry.handle).load(acquire) != handle)
          return Leaving::closed_already;  // two threads close it
        if (inode.busy == 0) return leave_now(entry, handle, inode);
        inode.busy = busy_and_waited;
      }
      rest_while_busy(inode, sleeps);
    }
  }
  // Under open_lock.
  FERRY_DEVICE Leaving leave_now(OpenFile& entry, std::int32_t handle, Inode& inode) const {
    DeviceRef<std::int32_t>(entry.handle).store(-handle, release);
    const bool last = --inode.references == 0;
    DeviceRef<std::int32_t> write_handle(inode.write_handle);
    const bool writes = write_handle.load(relaxed) == handle;
    if (writes_back(entry.access)) --inode.writers;
    const std::int32_t other = writes && inode.writers > 0 ? other_writable(inode.id) : 0;
    if (other != 0) write_handle.store(other, release);
    if (!last && (!writes || other != 0)) return Leaving::one_of_many;
    inode.busy = 1;
    return last ? Leaving::last : Leaving::last_writer;
  }

  // Writes back the files of one storage, after its cached writes. 0 or the last error.
  FERRY_DEVICE int stop_storage(std::uint32_t storage) {
    pages_.wait_for_all_writers(storage);
    return flush_files([&](std::uint32_t id) { return cache::storage(view_, id) == storage; });
  }
  template <class IsWanted>
  FERRY_DEVICE_CALL int flush_files(IsWanted is_wanted) {
    int error = 0;
    for (std::uint32_t i = 0; i < view_.layout.geometry.inodes; ++i) {
      const std::uint32_t id = DeviceRef<std::uint32_t>(view_.inode(i).id).load(acquire);
      const auto result = is_wanted(id) ? static_cast<int>(pages_.flush(id)) : 0;
      if (result != 0) error = result;
    }
    return error;
  }

  static constexpr std::uint64_t stop_slice_ns = 1'000'000;
  static constexpr std::uint32_t busy_and_waited = 2;
  static constexpr std::uint64_t park_slice_ns = 10'000'000;
  // `last()`: runs under open_lock.
  template <class Last>
  FERRY_DEVICE void end_busy(Inode& inode, Last last) const {
    std::uint32_t busy = 0;
    {
      const SpinLock lock(view_.shared().open_lock, hooks_);
      last();
      busy = inode.busy;
      inode.busy = 0;
      if (inode.references == 0) index_.give_back(inode, inode.version != 0);
    }
    if (busy == busy_and_waited) wake(hooks_, inode.busy);
  }
  // Until the record is not busy any more, or for a while.
  FERRY_DEVICE void rest_while_busy(const Inode& inode, std::uint64_t sleeps) const {
    park(hooks_, inode.busy, busy_and_waited, next_sleep_ns(park_slice_ns, sleeps));
  }

  FERRY_DEVICE std::uint32_t next_id(std::uint32_t id) const {
    return (id + view_.layout.geometry.inodes) & ((1U << inode_bits) - 1);
  }
  // Whether a handle with this access can write back others' data. An appending one writes it
  // elsewhere. A synchronous one is slow, and its own writes are never dirty, so the file's other
  // writers have another handle.
  FERRY_DEVICE static bool writes_back(std::uint32_t access) {
    constexpr std::uint32_t looked_at =
        OpenFile::writable | OpenFile::appends | OpenFile::synchronous;
    return (access & looked_at) == OpenFile::writable;
  }
  FERRY_DEVICE std::int32_t other_writable(std::uint32_t id) const {
    for (std::uint32_t i = 0; i < view_.layout.geometry.inodes; ++i) {
      OpenFile& entry = view_.open_file_at(i);
      const std::int32_t handle = DeviceRef<std::int32_t>(entry.handle).load(acquire);
      if (handle > 0 && entry.inode == id && writes_back(entry.access)) return handle;
    }
    return 0;
  }

  const View& view_;
  const HostHooks& hooks_;
  RingIo io_;
  InodeIndex index_;
  PageCache<RingIo> pages_;
};

}  // namespace ferry::device::cache
