// Keeps direct and buffered writes of one file apart in time.
//
// A direct write drops the pages it bypasses from the kernel's page cache. If a buffered write has
// dirtied one of them meanwhile, or just a neighbour in a large folio or in the same block, that
// fails: the kernel no longer knows which bytes are newest, and the file's next fsync returns -EIO
// (dio_warn_stale_pagecache in mm/filemap.c). Programs with aligned transfers never see this; one
// whose unaligned transfers Ferry sends through the page cache would.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

#include <sys/types.h>

#include "storage/of_inode.hpp"

namespace ferry::storage {

// Thread-safe. Invariant: direct_ == 0 or no buffered write is in flight.
class WriteTurns {
 public:
  // Whether a direct write may start; end_direct() must follow. Never waits: with buffered writes
  // in flight or waiting, this one must be buffered too, so that a stream of direct writes cannot
  // starve them.
  bool try_begin_direct();
  void end_direct();
  // Waits until no direct write is in flight. Never call it on the thread that must end them.
  void begin_buffered();
  void end_buffered();

  // The turns of an inode: the same for every opening of it in this process, although the page
  // cache is the machine's. The transfers in flight of a parent never end in its child.
  static std::shared_ptr<WriteTurns> of(dev_t device, ino_t inode) {
    return of_inode<WriteTurns>(device, inode);
  }

 private:
  std::mutex mutex_;
  std::condition_variable no_direct_;
  unsigned direct_ = 0;    // in flight
  unsigned buffered_ = 0;  // in flight or waiting
};

}  // namespace ferry::storage
