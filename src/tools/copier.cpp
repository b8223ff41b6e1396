#include "tools/copier.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <ferry/ferry.hpp>

#include "storage/calls.hpp"
#include "storage/uri.hpp"

namespace ferry::bench {
namespace {

using storage::Calls;
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

void check(std::int64_t result, const std::string& what) {
  if (result < 0) throw Error(static_cast<int>(-result), what);
}

std::uint64_t mixed(std::uint64_t sum, std::uint64_t word) {
  sum = (sum ^ word) * 0xff51afd7ed558ccdULL;
  return sum ^ sum >> 32;
}

// 64 bits of a piece's contents: the mixing steps of MurmurHash's finaliser over each word. Several
// sums side by side, as each step of one waits for the one before.
std::uint64_t fingerprint(const std::byte* data, std::size_t bytes) {
  std::array<std::uint64_t, 8> sums{1, 2, 3, 4, 5, 6, 7, 8};
  std::array<std::uint64_t, 8> words{};
  for (std::size_t at = 0; at < bytes; at += sizeof words) {
    if (bytes - at < sizeof words) words = {};
    std::memcpy(words.data(), data + at, std::min(sizeof words, bytes - at));
    for (std::size_t i = 0; i < sums.size(); ++i)
      sums[i] = mixed(sums[i], words[i]);
  }
  std::uint64_t all = bytes;
  for (const std::uint64_t sum : sums)
    all = mixed(all, sum);
  return all;
}

// Where the last name of a path lies.
struct Name {
  explicit Name(const std::string& path) : end(storage::path_end(path)) {
    const std::size_t slash = path.rfind('/', end == 0 ? 0 : end - 1);
    begin = slash == std::string::npos ? 0 : slash + 1;
  }
  std::size_t begin = 0;
  std::size_t end;
};

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

// One piece on its way: read, then written.
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
      : options_(options), stopped_(stopped), calls_(storage, memory_.span(), depth) {
    for (std::size_t i = 0; i < slots_.size(); ++i)
      slots_[i].memory = memory_.span().data() + i * piece_bytes;
  }
  ~Copy() {
    end_transfers();
    for (File* file : {source_, target_})
      if (file != nullptr) close(file);
    if (!scratch_.empty()) remove(scratch_);
  }
  Copy(const Copy&) = delete;
  Copy& operator=(const Copy&) = delete;

  CopyReport run() {
    CopyReport report;
    open_source();
    choose_target();
    open_scratch();
    auto begin = Clock::now();
    move(&Copy::read_source, "copying");
    report.bytes = size_bytes_;
    report.copy_s = seconds_since(begin);
    begin = Clock::now();
    check(simple(Kind::sync, target_), to_);
    report.sync_s = seconds_since(begin);
    begin = Clock::now();
    verify();
    report.verify_s = seconds_since(begin);
    publish();
    return report;
  }

 private:
  // ---- files
  // -------------------------------------------------------------------------------------

  std::int64_t simple(Kind kind, File* file) {
    Operation operation;
    operation.kind = kind;
    operation.file = file;
    return calls_.run(operation);
  }
  std::int64_t close(File*& file) {
    File* closed = file;
    file = nullptr;
    return simple(Kind::close, closed);
  }
  std::int64_t by_path(Kind kind, const std::string& path, storage::Status* status = nullptr) {
    Operation operation;
    operation.kind = kind;
    operation.path = path.c_str();
    const std::int64_t result = calls_.run(operation);
    if (status != nullptr) *status = operation.status;
    return result;
  }
  bool exists(const std::string& path) {
    const std::int64_t result = by_path(Kind::path_status, path);
    if (result != -ENOENT) check(result, path);
    return result == 0;
  }
  void remove(const std::string& path) { by_path(Kind::unlink, path); }
  File* open(const std::string& path, int flags, std::uint32_t mode) {
    Operation operation;
    operation.kind = Kind::open;
    operation.path = path.c_str();
    operation.flags = flags;
    operation.mode = mode;
    check(calls_.run(operation), path);
    return operation.opened.release();
  }
  storage::Status status_of(File* file, const std::string& path) {
    Operation operation;
    operation.kind = Kind::file_status;
    operation.file = file;
    check(calls_.run(operation), path);
    return operation.status;
  }

  void open_source() {
    source_ = open(options_.from, O_RDONLY, 0);
    source_status_ = status_of(source_, options_.from);
    if (S_ISDIR(source_status_.mode)) throw Error(EISDIR, options_.from);
    if (!S_ISREG(source_status_.mode)) throw Error(EINVAL, options_.from + " is no regular file");
    size_bytes_ = source_status_.size_bytes;
    fingerprints_.resize((size_bytes_ + piece_bytes - 1) / piece_bytes);
  }

  // Into a directory: under the source's name.
  void choose_target() {
    storage::Status status;
    std::int64_t result = by_path(Kind::path_status, to_, &status);
    if (result == 0 && S_ISDIR(status.mode)) {
      const Name from(options_.from);
      to_.insert(storage::path_end(to_),
                 "/" + options_.from.substr(from.begin, from.end - from.begin));
      result = by_path(Kind::path_status, to_);
    }
    if (result == -ENOENT) return;
    check(result, to_);
    if (!options_.overwrite) throw Error(EEXIST, to_);
  }

  // A name that is free, in the destination's folder.
  void open_scratch() {
    const Name name(to_);
    std::random_device random;
    const std::string path =
        to_.substr(0, name.begin) + ".ferry-cp-" + std::to_string(random()) + to_.substr(name.end);
    // Its owner may read it back whatever rights it gets.
    target_ = open(path, O_RDWR | O_CREAT | O_EXCL, (source_status_.mode & 07777) | 0600);
    scratch_ = path;
  }

  void publish() {
    check(close(target_), to_);
    const storage::Status now = status_of(source_, options_.from);
    if (now.size_bytes != size_bytes_ || now.modified_ns != source_status_.modified_ns) {
      throw Error(ESTALE, options_.from + " changed while it was copied");
    }
    if (!options_.overwrite && exists(to_)) throw Error(EEXIST, to_);
    Operation rename;
    rename.kind = Kind::rename;
    rename.path = scratch_.c_str();
    rename.new_path = to_.c_str();
    check(calls_.run(rename), to_);
    scratch_.clear();
  }

  // ---- pieces
  // ------------------------------------------------------------------------------------

  void submit(Slot& slot, Kind kind, File* file) {
    slot.kind = kind;
    slot.file = file;
    slot.sync_follows = kind == Kind::write;
    slot.offset = static_cast<std::int64_t>(slot.at + slot.moved);
    slot.vector = {slot.memory + slot.moved, slot.bytes - slot.moved};
    slot.vectors = {&slot.vector, 1};
    slot.under_way = true;
    ++under_way_;
    calls_.start(slot);
  }
  // Begins with the next piece of the file, if there is one.
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
    auto* slot = static_cast<Slot*>(calls_.next(look_around));
    if (slot == nullptr) return nullptr;
    slot->under_way = false;
    --under_way_;
    return slot;
  }

  // Whether the slot is done with its piece.
  bool read_source(Slot& slot) {
    if (slot.kind == Kind::write) return true;
    fingerprints_[slot.at / piece_bytes] = fingerprint(slot.memory, slot.bytes);
    slot.moved = 0;
    submit(slot, Kind::write, target_);
    return false;
  }
  bool compare(Slot& slot) {
    if (fingerprint(slot.memory, slot.bytes) != fingerprints_[slot.at / piece_bytes]) {
      throw Error(EBADMSG,
                  to_ + " does not hold what was written, at byte " + std::to_string(slot.at));
    }
    return true;
  }

  // All pieces of a file, `depth` at a time; `moved_one` is called with each transfer's end.
  void move(bool (Copy::*moved_one)(Slot&), const char* phase) {
    File* const from = moved_one == &Copy::compare ? target_ : source_;
    next_ = 0;
    std::uint64_t done = 0;
    for (Slot& slot : slots_)
      begin_piece(slot, from);
    while (under_way_ > 0) {
      Slot* finished = next_finished();
      if (stopped_.load(std::memory_order_relaxed)) throw Error(EINTR, "interrupted");
      if (finished == nullptr) continue;
      Slot& slot = *finished;
      const std::string& path = slot.file == source_ ? options_.from : to_;
      check(slot.result, path);
      if (slot.result == 0) throw Error(EIO, path + " ended early");
      slot.moved += static_cast<std::size_t>(slot.result);
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

  // After an error: nothing may touch the memory any more.
  void end_transfers() {
    for (Slot& slot : slots_)
      if (slot.under_way) calls_.cancel(slot);
    while (under_way_ > 0)
      next_finished();
  }

  const CopyOptions& options_;
  const std::atomic<bool>& stopped_;
  const Memory memory_;
  Calls calls_;
  std::vector<Slot> slots_{depth};
  File* source_ = nullptr;
  File* target_ = nullptr;
  std::string to_ = options_.to;
  std::string scratch_;  // empty: there is none
  storage::Status source_status_;
  std::uint64_t size_bytes_ = 0;
  std::uint64_t next_ = 0;
  unsigned under_way_ = 0;
  std::vector<std::uint64_t> fingerprints_;  // of what was read, piece by piece
};

}  // namespace

CopyReport copy_file(storage::Storage& storage, const CopyOptions& options,
                     const std::atomic<bool>& stopped) {
  Copy copy(storage, options, stopped);
  return copy.run();
}

}  // namespace ferry::bench
