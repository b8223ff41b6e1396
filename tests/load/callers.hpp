// One caller of a load: makes random calls on its place, and checks every result and every byte.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "load/calls.hpp"
#include "load/files.hpp"
#include "load/model.hpp"
#include "support/depth.hpp"

namespace ferry::load {

// What callers found. Thread-safe.
class LoadFindings {
 public:
  void add(const std::string& line) {
    const std::lock_guard lock(mutex_);
    ++count_;
    if (lines_.size() < 20) lines_.push_back(line);
  }
  std::uint64_t count() const { return count_; }
  std::vector<std::string> lines() const {
    const std::lock_guard lock(mutex_);
    return lines_;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
  std::atomic<std::uint64_t> count_{0};
};

// What all callers share.
struct Load {
  std::uint64_t seed = 0;
  std::vector<LoadPlace> places;
  Latencies* latencies = nullptr;
  std::function<std::uint64_t()> hung_ns;  // for how long something has hung until now, in all
  // For how long a server loop has been ready to run without a CPU, on average; a moment ago.
  std::atomic<std::uint64_t> server_ready_ns{0};
  SlowCalls slow;  // of storages that do not hang
  LoadFindings findings;
  std::atomic<bool> faults{true};
  std::atomic<std::uint64_t> checked_bytes{0};
  std::atomic<std::uint64_t> failed_calls{0};
};

// Callers of the same kind and place write and read one file together, in pieces that lie between
// those of the others, so that they share pages. Besides, each has a file of its own.
class LoadCaller {
 public:
  static constexpr std::uint64_t together = 8;  // callers of one file
  static constexpr std::uint64_t pieces = 6;    // of each

  // `number`: of all callers on the place; `kind` tells device callers from bulk ones.
  LoadCaller(Load& load, std::size_t place, const std::string& kind, std::uint64_t number);

  // Opens, makes calls until the time, or so many, and closes and removes what is its own alone.
  void work(CallerFiles& files, Clock::time_point until, unsigned steps);
  // When nothing fails any more: everything can be synced, read and found in the storage.
  void check_all(CallerFiles& files);
  // When the current call began, in the clock's ns; 0: none is in progress.
  std::uint64_t call_began() const { return began_; }
  std::string doing() const;

 private:
  const LoadPlace& where() const { return load_.places[place_]; }
  std::uint64_t offset_of(std::uint64_t piece) const {
    return (piece * together + member_) * OwnedPiece::bytes;
  }
  std::uint64_t new_key() { return mixed(key_base_ + ++generation_) | 1; }

  // Makes a call; notes how long it took, and an error that may not be.
  template <class Call>
  std::int64_t make(const CallerFiles& files, LoadCall kind, const Call& call);
  void find(const std::string& what);

  bool open_shared(CallerFiles& files);
  void close_shared(CallerFiles& files);
  void step(CallerFiles& files);
  void read_piece(CallerFiles& files);
  void read_wide(CallerFiles& files);
  void write_piece(CallerFiles& files);
  void sync_shared(CallerFiles& files, bool flushes);
  void check_piece(std::uint64_t piece, Bytes got, const char* how);
  void check_stored();

  bool open_own(CallerFiles& files);
  bool make_own_anew(CallerFiles& files);
  void close_own(CallerFiles& files);
  bool remove_own(CallerFiles& files);
  void use_own(CallerFiles& files);
  void append_own(CallerFiles& files);
  void read_own(CallerFiles& files);
  void truncate_own(CallerFiles& files);
  void rename_own(CallerFiles& files);
  std::string own_path(bool other) const;

  Load& load_;
  const std::size_t place_;
  const std::uint64_t member_;
  const std::uint64_t key_base_;
  const std::string shared_name_;
  const std::string own_name_;
  test::Random random_;
  std::uint64_t generation_ = 0;
  std::vector<OwnedPiece> pieces_;
  int shared_ = 0;
  OwnFile own_;
  int own_handle_ = 0;
  bool own_renamed_ = false;
  unsigned own_names_ = 0;  // that are used no more
  std::vector<unsigned char> buffer_;
  std::atomic<std::uint64_t> began_{0};
  std::atomic<LoadCall> doing_{LoadCall::open};
};

}  // namespace ferry::load
