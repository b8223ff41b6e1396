// What the clients of a round do, in memory that their processes share.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>

#include "histories/checks.hpp"

namespace ferry::histories {

// Four threads of one device, one of bulk transfers beside them, two threads of another process's
// device, and one thread of a third process that makes plain system calls.
inline constexpr unsigned clients = 8;
inline constexpr unsigned first_device_threads = 4;
inline constexpr unsigned bulk_client = 4;
inline constexpr unsigned second_device_client = 5;
inline constexpr unsigned second_device_threads = 2;
inline constexpr unsigned plain_client = 7;
// Domains: inside one, clients see each other's bytes at once.
enum Domain : unsigned { plain_domain, first_device, second_device, bulk_domain };

// The files of a round.
enum FileName : unsigned { of_first_device, of_second_device, shared_by_all, log_of_all, files };
inline constexpr std::uint64_t file_bytes = 18'000;  // four pages and a part

enum class CallKind : std::uint8_t { read, write, append, publish, cut, look };
struct RecordedCall {
  CallKind kind;
  FileName file;
  bool at_once;  // a write that is in the storage when it returns
  char how[24];
  unsigned domain;
  std::uint64_t offset;  // of a truncation, and of a look at it, the size
  std::uint64_t bytes;
  std::uint64_t wanted;  // of a read
  std::uint64_t value;   // of a write; of an append its number; of a read where its bytes lie
  Time opened;
  Time began;
  Time ended;
};

// The present time. What stands before it has taken effect for all, and what stands behind it has
// not begun: the exchanges are barriers, which neither the core nor the compiler passes.
inline Time now() {
  thread_local std::atomic<int> barrier{0};
  barrier.exchange(1);
  const Time time = static_cast<Time>(std::chrono::steady_clock::now().time_since_epoch().count());
  barrier.exchange(0);
  return time;
}

// One client writes it; the round's checks read it when all clients have ended.
class ClientLog {
 public:
  void clear() {
    count_ = 0;
    data_bytes_ = 0;
    error_[0] = '\0';
  }
  // Whether there is a place for this.
  bool has_room(std::uint64_t bytes) const {
    return count_ < events_max && data_bytes_ + bytes <= sizeof data_;
  }
  void add(RecordedCall event, const void* found = nullptr) {
    if (event.kind == CallKind::read) {
      event.value = data_bytes_;
      std::memcpy(data_ + data_bytes_, found, event.bytes);
      data_bytes_ += event.bytes;
    }
    events_[count_++] = event;
  }
  // The first counts.
  void fail(const std::string& what) {
    if (error_[0] == '\0') std::snprintf(error_, sizeof error_, "%s", what.c_str());
  }
  bool failed() const { return error_[0] != '\0'; }
  std::string error() const { return error_; }
  std::uint32_t count() const { return count_; }
  const RecordedCall& event(std::uint32_t index) const { return events_[index]; }
  const unsigned char* found(const RecordedCall& read) const { return data_ + read.value; }

 private:
  static constexpr std::uint32_t events_max = 250;
  std::uint32_t count_;
  std::uint64_t data_bytes_;
  char error_[400];
  RecordedCall events_[events_max];
  unsigned char data_[1 << 20];
};

// Client 0 is made to do wrong, so that the checks have something to find.
enum class ClientFault : std::uint8_t {
  none,
  stale_read,        // it finds again what it found at the beginning
  stale_after_open,  // the same by a handle that it has just opened
  lost_write,        // its write is acknowledged and not made
  lost_flush,        // so is its flush
  foreign_bytes,     // its write puts old bytes around the new ones
  double_append,
  lost_append,
  lost_cut,       // its truncation is acknowledged and not made
  revived_bytes,  // what it cut off comes back when the file grows
  stale_size,     // it finds the size that the file had before its truncation
  late_write,     // its write past all caches arrives after it is acknowledged
};
inline bool needs_cuts(ClientFault fault) {
  return fault == ClientFault::lost_cut || fault == ClientFault::revived_bytes ||
         fault == ClientFault::stale_size;
}

// Where the files of a round are.
enum class RoundPlace : std::uint8_t { local, nfs, ceph };

// Which calls the devices make on files of their own.
enum class Ways : std::uint8_t { through_the_cache, all };

struct Round {
  std::uint64_t seed;
  RoundPlace place;
  Ways ways;
  bool cuts;  // all clients truncate files at times
  ClientFault fault;
  // Of a file's name: what plain calls have before its number, what Ferry's calls have there, and
  // what these have behind it.
  char folder[200];
  char uri[200];
  char settings[200];

  std::string path(FileName file) const { return folder + std::to_string(file); }
  std::string name(FileName file) const { return uri + std::to_string(file) + settings; }
  bool is_served() const { return place != RoundPlace::local; }
  // A server does not make an append of one step: those of several processes may meet.
  bool may_append(unsigned domain) const {
    return !is_served() || domain == first_device || domain == bulk_domain;
  }
};

struct SharedRecords {
  Round round;
  std::atomic<std::uint32_t> arrived;
  std::atomic<std::uint32_t> finished;
  std::atomic<std::uint32_t> values[files];  // used so far
  ClientLog logs[clients];
};

}  // namespace ferry::histories
