// What recorded histories of files have to obey, given when each call began and ended.
//
// - Inside one device a read finds what a write has finished, whatever the placements. While one is
//   under way, a read may find its bytes and a later read old bytes, where one of them goes past
//   the cache. If all go through it, every byte is a linearisable register (checked where nothing
//   truncates).
// - Between domains (devices, bulk transfers, processes) it is close-to-open: a read finds what was
//   published before its handle was opened.
// - Appended records are there once, whole, and in an order that agrees with real time.
// - A truncation obeys the same rules as a write, and is in the storage when it returns. It makes
//   the bytes behind the new size zero, and they are zero when the file grows again.
// - Where all calls go through one page cache, the size is linearisable. Transfers are not atomic,
//   as on Linux: beside a truncation a read may get zeros behind the new end, or end behind any of
//   its pages, and a write may make the file longer in steps, from its first bytes to its last.
//
// Each write puts one value into all of its bytes, and no other write to that file has that value;
// 0 is what the file held at first. check_close_to_open() takes several writes of 0 as well, which
// truncations are. A transfer is not atomic: its bytes are registers of their own. Beside its value
// a byte of a file that is truncated has a second register: whether the file reaches that far.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace ferry::histories {

using Time = std::uint64_t;  // nanoseconds of one monotonic clock
inline constexpr Time never = std::numeric_limits<Time>::max();

// A call on one register.
struct RegisterCall {
  bool is_read;
  unsigned value;  // written or found
  Time began;
  Time ended;
};

// Whether some order of the calls explains what they found, agrees with real time, and begins with
// a write of 0. For writes of unique values this takes polynomial time: Gibbons and Korach, Testing
// Shared Memories, SIAM J. Comput. 26(4), 1997, theorem 4.2.
bool is_linearisable(const std::vector<RegisterCall>& calls);

// A transfer of bytes of a file.
struct FileTransfer {
  bool is_read;
  unsigned client;
  unsigned domain;
  std::uint64_t offset;
  std::uint64_t bytes;
  unsigned value = 0;                    // of a write
  const unsigned char* found = nullptr;  // of a read
  Time began = 0;
  Time ended = 0;
  Time published = never;  // of a write: from then on it is in the storage
  Time opened = 0;         // of a read: when the open of its handle began
  std::string how = {};    // it was made
};

// Each returns nothing, or what is wrong with the history of a file.
std::string check_linearisable(const std::vector<FileTransfer>& transfers);
std::string check_close_to_open(const std::vector<FileTransfer>& transfers);

// A call that changes or shows the size of a file. `find_more` and `find_less` show that the file
// is at least or at most as long; a short read finds the one and then the other.
struct SizeCall {
  enum class Does : std::uint8_t { set, grow, find, find_less, find_more };
  unsigned client;  // makes one call after the other
  Does does;
  std::uint64_t size;  // of `grow`: the end of the write, which was at `from`
  std::uint64_t from = 0;
  Time began = 0;
  Time ended = 0;
};
// Whether some order of the calls explains the sizes that they found. The file has `first` bytes at
// first.
std::string check_sizes(const std::vector<SizeCall>& calls, std::uint64_t first);

// A record that was appended, and acknowledged.
struct Appended {
  std::uint32_t client;
  std::uint32_t number;  // of this client
  std::uint64_t bytes;
  Time began = 0;
  Time ended = 0;
};

inline constexpr std::uint64_t record_bytes_min = 8;
std::string record_contents(std::uint32_t client, std::uint32_t number, std::uint64_t bytes);
std::string check_appends(const std::string& file, const std::vector<Appended>& records);

}  // namespace ferry::histories
