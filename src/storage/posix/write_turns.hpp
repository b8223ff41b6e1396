// Keeps direct and buffered writes of one file apart in time.
//
// A direct write drops the pages it bypasses from the kernel's page cache. If a buffered write has
// dirtied one of them meanwhile, or just a neighbour in a large folio or in the same block, that
// fails: the kernel no longer knows which bytes are newest, and the file's next fsync returns -EIO
// (dio_warn_stale_pagecache in mm/filemap.c). Programs with aligned transfers never see this; one
// whose unaligned transfers Ferry sends through the page cache would.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include <sys/types.h>

#include "storage/of_inode.hpp"

namespace ferry::storage {

// Thread-safe. Invariant: no direct write is in flight beside a buffered one.
class WriteTurns {
 public:
  // Whether a direct write may start; end_direct() must follow. Never waits: with buffered writes
  // in flight or waiting, this one must be buffered too, so that a stream of direct writes cannot
  // starve them.
  bool try_begin_direct();
  void end_direct();
  // Waits until no direct write is in flight. Never call it on the thread that must end them.
  void begin_buffered();
  // Does not wait: returns false while a direct write is in flight.
  bool try_begin_buffered();
  void end_buffered();

  // The turns of an inode: the same for every opening of it in this process, although the page
  // cache is the machine's. The transfers in flight of a parent never end in its child.
  static std::shared_ptr<WriteTurns> of(dev_t device, ino_t inode) {
    return of_inode<WriteTurns>(device, inode);
  }

 private:
  static constexpr std::uint64_t one_buffered = std::uint64_t{1} << 32;
  static bool has_direct(std::uint64_t counts) { return counts % one_buffered != 0; }

  // Direct writes in flight, and above them buffered ones in flight or waiting.
  std::atomic<std::uint64_t> counts_{0};
};

}  // namespace ferry::storage
