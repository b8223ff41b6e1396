// What a file may hold: derived from the calls on it, when each began and ended and what it
// returned, and from nothing that reached the storage.
//
// Each write puts one value into all of its bytes; 0 is a hole. A read may find, for each byte, any
// write that began before the read ended and that no later write had certainly replaced before the
// read began: a write that began after the other had ended, that succeeded, and that no call's
// error may have undone since. A failed write leaves old or new bytes. A truncation is a write of
// holes. After a power cut only synced writes replace others.
//
// Between the device and bulk transfers it is close-to-open. What a device writes is *published* by
// a later flush, sync or close, what it truncates and what a bulk transfer writes at once. Of the
// other side's writes, a read certainly finds those that were published before its file was opened;
// and a write certainly replaces those that were published before it began.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace ferry::simulator {

class FileHistory {
 public:
  static constexpr unsigned values_max = 240;
  using Time = std::uint64_t;  // counts events
  static constexpr Time never = std::numeric_limits<Time>::max();
  enum class Domain : std::uint8_t { device, bulk };

  explicit FileHistory(std::string name) : name_(std::move(name)) {}
  const std::string& name() const { return name_; }

  // Returns the value to write; 0: there are none left.
  unsigned begin_write(std::uint64_t offset, std::uint64_t bytes, Domain by = Domain::device);
  // How many bytes were written, or a negative errno.
  void end_write(unsigned value, std::int64_t result);
  std::size_t begin_truncate(std::uint64_t size, Domain by = Domain::device);
  void end_truncate(std::size_t truncation, int result);
  struct Call {
    Time began;
    Domain by = Domain::device;
    Time opened = 0;  // of a read: when the open of its handle began
  };
  Call begin(Domain by = Domain::device);
  void end_read(Call call, std::uint64_t offset, std::uint64_t wanted, std::int64_t result,
                const unsigned char* data);
  void end_sync(Call call, int result);
  // A flush or a close.
  void end_publication(Call call, int result);
  // Any other call on the file that returned an error.
  void end_failed(Call call);
  // From now on what was not synced may be lost, without an error that says so.
  void may_lose();
  // This value is that of no write, and may be anywhere.
  void may_hold(unsigned char value) { stray_ = value; }

  bool had_errors() const { return !errors_.empty(); }
  std::size_t writes() const { return writes_.size(); }

  // Empty, or what is wrong.
  std::string check_reads() const;
  std::string check_contents(const std::string& bytes) const;
  std::string check_after_power_cut(const std::string& bytes) const;

 private:
  struct Write {
    std::uint64_t first;    // byte
    std::uint64_t last;     // behind it
    std::uint64_t certain;  // behind the last that was certainly written
    unsigned char value;
    Time began;
    Time ended = never;
    Domain by = Domain::device;
    Time published = never;
    bool may_be_lost = false;
    bool synced = false;

    bool is_truncation() const { return last == never; }
    // Whether it comes after the other one in the storage, certainly.
    bool follows(const Write& other) const {
      return by == other.by ? began > other.ended : began > other.published;
    }
  };
  struct Span {
    Time began;
    Time ended;
    Domain by = Domain::device;
  };
  struct Read {
    Span when;
    Time opened;
    std::uint64_t offset;
    std::uint64_t wanted;
    std::uint64_t got;
    std::vector<unsigned char> data;
  };

  void end(Write& write, std::int64_t result);
  std::vector<Write> judged() const;
  enum class Replaced : std::uint8_t { by_writes, by_synced_writes };
  std::string check(const std::vector<Write>& writes, const Read& read, Replaced by) const;
  static bool may_be_found(const std::vector<Write>& writes, std::uint64_t at, unsigned char value,
                           const Read& read, Replaced by);

  const std::string name_;
  Time now_ = 0;
  std::vector<Write> writes_;
  std::vector<Read> reads_;
  std::vector<Span> syncs_;
  std::vector<Span> publications_;  // of the device
  std::vector<Span> errors_;
  unsigned values_ = 0;
  unsigned char stray_ = 0;  // 0: none
};

// What a file of appended records may hold. Each consists of its own value.
class LogHistory {
 public:
  using Time = FileHistory::Time;

  unsigned begin_append(std::uint64_t bytes);  // 0: there are no values left
  void end_append(unsigned value, std::int64_t result);
  Time begin();
  void end_sync(Time began, int result);
  std::string check_read(const unsigned char* data, std::int64_t got) const;

  std::string check_contents(const std::string& bytes) const { return check(bytes, false); }
  std::string check_after_power_cut(const std::string& bytes) const { return check(bytes, true); }

 private:
  struct Record {
    std::uint64_t bytes;
    Time began;
    Time ended = FileHistory::never;
    bool done = false;
    bool synced = false;
  };
  std::string check(const std::string& bytes, bool only_synced) const;

  Time now_ = 0;
  std::vector<Record> records_;  // of the values 1, 2, ...
};

}  // namespace ferry::simulator
