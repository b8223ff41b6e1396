// What ferryd and the processes that it serves share beside the page cache: which files are served,
// whether ferryd lives, and hints which pages to bring in.
//
// Protocol of a read by another process, which has offered a file and got a ServedFile:
//   reader                              ferryd
//   copy the bytes out of the cache     store a new mark (the file is not served any more)
//   acquire fence                       give up the kernel's lease (a system call)
//   look at `alive` and the mark        -> only now the kernel lets a writer change the file
// Invariants:
//   D1  While a file's mark says that it is served, ferryd holds a read lease on it, or is dead. So
//       nobody can have opened it for writing, nor truncated it, and what the cache holds of it is
//       what the file holds. Except: open with O_RDONLY | O_TRUNC passes by a lease; an inotify
//       event ends the mark soon after (lease_watch.hpp).
//   D2  When ferryd dies, the kernel sets FUTEX_OWNER_DIED in `alive` before it closes ferryd's
//       descriptors, which is what ends its leases (do_exit: the robust list, then the files).
//   D3  A reader therefore never returns bytes that were changed before its call began: it returns
//       them only if the mark still stands and ferryd still lives after the copy.
//   D4  Marks never repeat: a file that is served again gets another one. Each ferryd begins at a
//       random one of 2^63, so those of one that is gone are not taken for those of the next.
// Everything else here is advice. Whatever a client stores in it harms readers of the same user at
// most, since nobody else's processes get the memory.
#pragma once

#include <atomic>
#include <cstdint>

#include <linux/futex.h>

#include <ferry/device/cache/layout.hpp>

namespace ferry::daemon {

inline constexpr std::uint32_t files_max = 1024;  // served at the same time
// Threads of other processes that read at the same time; others make the kernel's calls.
inline constexpr std::uint32_t readers_max = 512;
inline constexpr std::uint32_t hint_pages_max = 64;

// A file that is served, or was.
struct alignas(64) FileEntry {
  std::atomic<std::uint64_t> mark;  // odd: served; only ferryd stores it
  std::atomic<std::uint64_t> size_bytes;
};
static_assert(sizeof(FileEntry) == 64);

// Pages that a reader missed: entry, first page, number. One word, so that it is never torn; the
// next one replaces it.
struct alignas(64) HintCell {
  std::atomic<std::uint64_t> hint;
};
static_assert(sizeof(HintCell) == 64);

struct PageHint {
  std::uint32_t entry = 0;
  std::uint64_t first_page = 0;
  std::uint32_t pages = 0;

  static constexpr unsigned pages_bits = 8;
  static constexpr unsigned entry_bits = 12;
  std::uint64_t word() const {
    return first_page << (entry_bits + pages_bits) | std::uint64_t{entry} << pages_bits | pages;
  }
  static PageHint of(std::uint64_t word) {
    return {static_cast<std::uint32_t>(word >> pages_bits & ((1U << entry_bits) - 1)),
            word >> (entry_bits + pages_bits),
            static_cast<std::uint32_t>(word & ((1U << pages_bits) - 1))};
  }
};
static_assert(files_max <= 1U << PageHint::entry_bits);
static_assert(hint_pages_max < 1U << PageHint::pages_bits);

// Fills pages of its own, also where the kernel's have 64 KiB, so that clients may store into it
// and not into the files' data. Where they have, its memory is aligned to them.
inline constexpr std::uint64_t table_alignment_bytes = 64 * 1024;
struct alignas(4096) SharedTable {
  static constexpr std::uint32_t word_bits = 64;

  // A futex word on the robust list of a thread of ferryd: its number, or FUTEX_OWNER_DIED.
  alignas(64) std::atomic<std::uint32_t> alive;
  // A bit for each reader that left a hint.
  alignas(64) std::atomic<std::uint64_t> hinted[readers_max / word_bits];
  // 1: the filling thread sleeps, or is about to, on `bell`. It announces this and then looks at
  // `hinted`; a reader sets its bit and then looks at this (seq_cst, all four).
  alignas(64) std::atomic<std::uint32_t> filler_sleeps;
  std::atomic<std::uint32_t> bell;
  HintCell hints[readers_max];
  FileEntry files[files_max];
  unsigned char unused[7 * 4096];
};
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);
static_assert(sizeof(SharedTable) == 2 * table_alignment_bytes);

// A file as its readers know it.
struct ServedFile {
  std::uint32_t entry = 0;
  std::uint32_t inode = 0;  // its number in the page cache
  std::uint64_t mark = 0;
};

// Where all of it lies in the memfd.
struct SharedMemory {
  std::uint64_t bytes = 0;
  std::uint64_t table = 0;  // offsets
  std::uint64_t cache = 0;
  device::cache::CacheLayout layout;
  std::uint32_t first_group = 0;  // of the readers, in the cache
};

}  // namespace ferry::daemon
