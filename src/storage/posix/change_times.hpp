// When a file's change time proves its contents.
//
// Linux sets that time (ctime, which no program can set) at the beginning of a change: before a
// write copies its bytes, however long that takes, and at the first store through a shared mapping
// into each of its pages, but not at later ones. So equal times prove nothing while a change may be
// in progress.
//
// They do from a moment at which
//   - the file is not open for writing. A mapping keeps its file open, also after close(2), and so
//     does a write in progress. A read lease (fcntl(2), F_SETLEASE) is granted only then; and
//   - the time is older than a tick of its clock.
// Later changes begin with opening the file, and set a later time: before the first byte changes
// or, for truncation, before the call returns. While the time is the same, so are the contents.
//
// This holds on file systems that notice the first store into every page of a new mapping: ext4,
// xfs and btrfs do, also for pages read before. tmpfs does not, and is never trusted; nor are
// servers, whose open files and writes are invisible here.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

namespace ferry::storage {

// Changes less than this after one at `changed_ns` may get the same time: the ticks of the clock
// that it is from are at most so long. File systems without parts of seconds count these.
constexpr std::chrono::nanoseconds tick_max(std::int64_t changed_ns) {
  return changed_ns % 1'000'000'000 != 0 ? std::chrono::milliseconds(100)
                                         : std::chrono::milliseconds(2000);
}

// Whether the file is not open for writing now, by any descriptor or mapping. `fd` is open only for
// reading. Also false if the kernel does not say: it does to the file's owner and to processes with
// CAP_LEASE. A process opening the file for writing at this moment waits for some microseconds;
// with O_NONBLOCK its call fails with EWOULDBLOCK.
bool has_no_writers(int fd);

// Remembers the times that were proven, of the last half of files_max files at least. Thread-safe.
class ChangeTimes {
 public:
  struct File {
    std::uint64_t device = 0;
    std::uint64_t inode = 0;
    auto operator<=>(const File&) const = default;  // NOLINT: a null pointer is seen in it
  };

  // Status::version of a file last changed at `changed_ns`, queried no later than `now_ns`.
  // `is_quiet()` returns whether no change can be in progress; called only if needed. 0: the time
  // proves nothing.
  template <class IsQuiet>
  std::uint64_t version(const File& file, std::int64_t changed_ns, std::int64_t now_ns,
                        IsQuiet is_quiet) {
    if (!is_proven(file, changed_ns)) {
      // The time first: a change that is over at the question may have begun before.
      if (now_ns - changed_ns <= tick_max(changed_ns).count() || !is_quiet()) return 0;
      remember(file, changed_ns);
    }
    return static_cast<std::uint64_t>(changed_ns);
  }

  static constexpr std::size_t files_max = 4096;

 private:
  bool is_proven(const File& file, std::int64_t changed_ns) const;
  void remember(const File& file, std::int64_t changed_ns);

  using Times = std::map<File, std::int64_t>;
  mutable std::mutex mutex_;
  // Guarded by it. Of a file that is in both, the first has the last time.
  Times proven_;
  Times proven_before_;
};

}  // namespace ferry::storage
