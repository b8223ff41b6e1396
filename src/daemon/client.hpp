// A process that ferryd serves, as seen by that process: it maps ferryd's memory and copies what
// the page cache holds. See shared_table.hpp for the protocol.
//
// Of the shared memory a client changes only its own readers' places (mark, counters, hint), the
// `touched` bit of a page, and the bit that announces a hint. It can die at any instruction: ferryd
// frees its places then. The file's data are mapped read-only.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "daemon/messages.hpp"
#include "daemon/shared_table.hpp"

namespace ferry::daemon {

// One object in a process, never destroyed while threads use it. It survives fork: the child finds
// that it is not attached, and its next offer attaches it.
class Client {
 public:
  // Does nothing yet. `socket_path` is copied; one that is too long serves nothing.
  explicit Client(const char* socket_path);
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  // Asks ferryd to serve the file behind a descriptor that is open for reading only. 0, or an
  // errno:
  //   EBUSY       a process has it open for writing
  //   EOPNOTSUPP  such files are not served
  //   ENOTCONN, ENOENT, ECONNREFUSED ...  no ferryd
  //   EPROTO      a ferryd of another version
  // Usually within 100 us, at worst 1 s. Thread-safe.
  int offer(int descriptor, ServedFile& file);

  static constexpr std::int64_t missed = -1;
  static constexpr std::int64_t gone = -2;
  // Bytes copied, fewer only at the end of the file; `missed`: not all of them are there, and a
  // hint was left; `gone`: the file is served no more. Thread-safe, also in signal handlers. Waits
  // for nothing; a thread's first call may ask ferryd for a place, as offer() does.
  std::int64_t pread(const ServedFile& file, void* to, std::uint64_t bytes, std::uint64_t offset);
  // The file's size in bytes, or `gone`. Thread-safe, also in signal handlers; waits for nothing.
  std::int64_t size_bytes(const ServedFile& file) const;

 private:
  struct Attached;  // the mapped memory
  struct Place;     // of a thread
  struct Life;      // what a child of fork must not inherit

  int attach();
  int ask(DaemonRequest& request, int descriptor, DaemonAnswer& answer, int& received) const;
  bool enter(Place& place);
  bool stands(const Attached& here, const ServedFile& file) const;
  void keep(std::uint64_t attachment, const std::uint32_t* readers, std::uint32_t count);
  bool take_spare(std::uint64_t attachment, std::uint32_t& reader);
  static void leave(void* place);
  bool copy(const Attached& here, std::uint32_t group, const ServedFile& file, unsigned char* to,
            std::uint64_t bytes, std::uint64_t offset) const;
  static void hint(const Attached& here, Place& place, const ServedFile& file, std::uint64_t offset,
                   std::uint64_t bytes);

  static constexpr std::uint32_t places_max = 64;

  char path_[108]{};
  Life* life_ = nullptr;  // null: nothing is served
  std::atomic<Attached*> attached_{nullptr};
  // Readers' places that no thread has: the attachment's number and the reader's, + 1; or 0.
  std::array<std::atomic<std::uint64_t>, places_max> spare_{};
};

}  // namespace ferry::daemon
