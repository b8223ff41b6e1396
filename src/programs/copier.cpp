#include "programs/copier.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <xxhash.h>

#include <ferry/ferry.hpp>

#include "programs/copy_target.hpp"
#include "storage/sync_file.hpp"

namespace ferry::bench {
namespace {

using storage::checked;
using storage::File;
using storage::Kind;
using storage::Operation;
using Clock = std::chrono::steady_clock;

constexpr std::size_t piece_bytes = std::size_t{1} << 20;
constexpr unsigned depth = 16;
constexpr std::chrono::milliseconds look_around{100};  // for `stopped`

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Memory for the pieces in flight, aligned for direct I/O and for huge pages.
class Memory {
 public:
  Memory()
      : data_(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) {
    if (data_ == MAP_FAILED) throw Error(ENOMEM, "memory for the copy");
  }
  ~Memory() { ::munmap(data_, bytes); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  std::span<std::byte> span() const { return {static_cast<std::byte*>(data_), bytes}; }

 private:
  static constexpr std::size_t bytes = piece_bytes * depth;
  void* data_;
};

// One piece in flight: read, then written.
struct Slot : Operation {
  std::byte* memory = nullptr;
  std::uint64_t at = 0;
  std::size_t bytes = 0;
  std::size_t moved = 0;
  bool under_way = false;
  iovec vector{};
};

class Copy {
 public:
  Copy(storage::Storage& storage, const CopyOptions& options, const std::atomic<bool>& stopped)
      : options_(options),
        stopped_(stopped),
        calls_(storage, {.arena = memory_.span(), .depth = depth}),
        target_(calls_, options) {
    for (std::size_t i = 0; i < slots_.size(); ++i)
      slots_[i].memory = memory_.span().data() + i * piece_bytes;
  }
  ~Copy() { give_up(); }
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;

  CopyReport run() {
    try {
      return copy();
    } catch (const std::system_error& error) {
      throw CopyError(error, give_up());
    }
  }

 private:
  CopyReport copy() {
    CopyReport report;
    open_source();
    target_.choose(source_status_);
    target_.open(source_status_);
    auto begin = Clock::now();
    move(&Copy::read_source, "copying");
    copy_rest();
    target_.trim(size_bytes_);
    report.bytes = size_bytes_;
    report.copy_s = seconds_since(begin);
    begin = Clock::now();
    checked(target_.file().sync(), target_.path());
    report.sync_s = seconds_since(begin);
    begin = Clock::now();
    verify();
    report.verify_s = seconds_since(begin);
    check_source();
    target_.publish(size_bytes_);
    return report;
  }

  // ---- files

  void open_source() {
    // Checked before opening: that alone would let a FIFO's writer start, and lose its data.
    Operation look{.kind = Kind::path_status, .path = options_.from.c_str()};
    checked(calls_.run(look), options_.from);
    if (!S_ISREG(look.status.mode) && !S_ISDIR(look.status.mode)) throw not_regular();
    checked(source_.open(options_.from, O_RDONLY), options_.from);
    source_status_ = status_of_source();
    if (S_ISDIR(source_status_.mode)) throw Error(EISDIR, options_.from);
    if (!S_ISREG(source_status_.mode)) throw not_regular();
    size_bytes_ = source_status_.size_bytes;
    fingerprints_.resize((size_bytes_ + piece_bytes - 1) / piece_bytes);
  }

  storage::Status status_of_source() {
    storage::Status status;
    checked(source_.status(status), options_.from);
    return status;
  }
  CopyRefusal not_regular() const { return not_a_regular_file(options_.from); }
  Error changed() const { return {ESTALE, options_.from + " changed during the copy"}; }

  void check_source() {
    const storage::Status now = status_of_source();
    if (now.size_bytes != source_status_.size_bytes) throw changed();
    // Files of /proc report the time of the stat call.
    const bool made_when_read = now.size_bytes == 0 && size_bytes_ > 0;
    if (!made_when_read && now.modified_ns != source_status_.modified_ns) throw changed();
  }

  // After an error: nothing may touch the memory any more.
  Remains give_up() {
    for (Slot& slot : slots_)
      if (slot.under_way) calls_.queue().cancel(slot);
    while (under_way_ > 0)
      next_finished();
    if (source_.is_open()) source_.close();
    return target_.give_up();
  }

  // ---- pieces

  void submit(Slot& slot, Kind kind, File* file) {
    slot.kind = kind;
    slot.file = file;
    slot.sync_follows = kind == Kind::write;
    slot.offset = static_cast<std::int64_t>(slot.at + slot.moved);
    slot.vector = {slot.memory + slot.moved, slot.bytes - slot.moved};
    slot.vectors = {&slot.vector, 1};
    slot.under_way = true;
    ++under_way_;
    calls_.queue().submit(slot);
    calls_.queue().flush();
  }
  // Starts the next piece of the file, if there is one.
  void begin_piece(Slot& slot, File* file) {
    if (next_ >= size_bytes_) return;
    slot.at = next_;
    slot.bytes = std::min<std::uint64_t>(piece_bytes, size_bytes_ - next_);
    slot.moved = 0;
    next_ += slot.bytes;
    submit(slot, Kind::read, file);
  }

  // Null: none has finished for a while.
  Slot* next_finished() {
    auto* slot = static_cast<Slot*>(calls_.next_within(look_around));
    if (slot == nullptr) return nullptr;
    slot->under_way = false;
    --under_way_;
    return slot;
  }

  // Whether the slot has finished its piece.
  bool read_source(Slot& slot) {
    if (slot.kind == Kind::write) return true;
    fingerprints_[slot.at / piece_bytes] = XXH3_64bits(slot.memory, slot.bytes);
    slot.moved = 0;
    submit(slot, Kind::write, target_.file().get());
    return false;
  }
  bool compare(Slot& slot) {
    if (XXH3_64bits(slot.memory, slot.bytes) != fingerprints_[slot.at / piece_bytes]) {
      throw Error(EBADMSG, target_.path() + " differs from what was written, at byte " +
                               std::to_string(slot.at));
    }
    return true;
  }

  // All pieces of a file, `depth` at a time; calls `moved_one` after each transfer.
  void move(bool (Copy::*moved_one)(Slot&), const char* phase) {
    File* const from = moved_one == &Copy::compare ? target_.file().get() : source_.get();
    next_ = 0;
    std::uint64_t done = 0;
    for (Slot& slot : slots_)
      begin_piece(slot, from);
    while (under_way_ > 0) {
      Slot* finished = next_finished();
      check_stopped();
      if (finished == nullptr) continue;
      Slot& slot = *finished;
      note_moved(slot);
      if (slot.result == 0) throw Error(EIO, path_of(slot) + " ended early");
      if (slot.moved < slot.bytes) {
        submit(slot, slot.kind, slot.file);
        continue;
      }
      if (!(this->*moved_one)(slot)) continue;
      done += slot.bytes;
      if (options_.progress) options_.progress(phase, done, size_bytes_);
      begin_piece(slot, from);
    }
  }
  void verify() { move(&Copy::compare, "verifying"); }

  // Reads beyond the source's reported size: files of /proc report none, others may have grown.
  void copy_rest() {
    Slot& slot = slots_.front();
    do {
      slot.at = size_bytes_;
      slot.bytes = piece_bytes;
      move_now(slot, Kind::read, source_.get());
      if (slot.moved == 0) return;
      if (status_of_source().size_bytes != 0) throw changed();
      slot.bytes = slot.moved;
      fingerprints_.push_back(XXH3_64bits(slot.memory, slot.bytes));
      move_now(slot, Kind::write, target_.file().get());
      if (slot.moved < slot.bytes) throw Error(EIO, target_.path());
      size_bytes_ += slot.bytes;
    } while (slot.bytes == piece_bytes);
  }

  // A single piece; fewer bytes move only at the end of the file.
  void move_now(Slot& slot, Kind kind, File* file) {
    slot.moved = 0;
    do {
      submit(slot, kind, file);
      while (next_finished() == nullptr)
        check_stopped();
      note_moved(slot);
    } while (slot.result > 0 && slot.moved < slot.bytes);
  }

  const std::string& path_of(const Slot& slot) const {
    return slot.file == source_.get() ? options_.from : target_.path();
  }
  void note_moved(Slot& slot) {
    checked(slot.result, path_of(slot));
    slot.moved += static_cast<std::size_t>(slot.result);
  }
  void check_stopped() {
    if (stopped_.load(std::memory_order_relaxed)) throw Error(EINTR, "interrupted");
  }

  const CopyOptions& options_;
  const std::atomic<bool>& stopped_;
  const Memory memory_;
  storage::SyncCalls calls_;
  CopyTarget target_;
  std::vector<Slot> slots_{depth};
  storage::SyncFile source_{calls_};
  storage::Status source_status_;
  std::uint64_t size_bytes_ = 0;
  std::uint64_t next_ = 0;
  unsigned under_way_ = 0;
  std::vector<std::uint64_t> fingerprints_;  // of the data read, piece by piece
};

}  // namespace

CopyReport copy_file(storage::Storage& storage, const CopyOptions& options,
                     const std::atomic<bool>& stopped) {
  Copy copy(storage, options, stopped);
  return copy.run();
}

}  // namespace ferry::bench
