// The records of files (Inode), by what identifies a file on its storage, and those that no handle
// uses: each is found in a time that does not depend on their number.
//
// All of it under Shared::open_lock. A record is in one of three states:
//   used    a handle refers to it, or it is `busy`. It is in its bucket's chain.
//   kept    closed, with pages of a known version. In its chain, and in the queue of kept ones.
//   vacant  neither. In the queue of vacant ones, so that all take turns: a record's number comes
//           again after 2^24 / records uses of it.
#pragma once

#include <cstdint>

#include <ferry/device/cache/layout.hpp>
#include <ferry/device/platform.hpp>

namespace ferry::device::cache {

class InodeIndex {
 public:
  FERRY_DEVICE explicit InodeIndex(const View& view) : view_(view), shared_(view.shared()) {}

  // The used or kept record of a file, or null.
  FERRY_DEVICE Inode* find(std::uint64_t number, std::uint64_t device) const {
    for (std::uint32_t link = chain(number, device); link != 0; link = record(link).chained) {
      Inode& inode = record(link);
      if (inode.number == number && inode.device == device) return &inode;
    }
    return nullptr;
  }
  // A record to be used for a file that has none: a vacant one, else the one that was kept longest,
  // whose pages must go. Null: all are in use.
  FERRY_DEVICE Inode* take(std::uint64_t number, std::uint64_t device) const {
    const bool is_vacant = shared_.vacant.oldest != 0;
    InodeQueue& queue = is_vacant ? shared_.vacant : shared_.kept;
    const std::uint32_t link = queue.oldest;
    if (link == 0) return nullptr;
    Inode& inode = record(link);
    leave(queue, inode);
    if (!is_vacant) unchain(inode);
    inode.number = number;
    inode.device = device;
    std::uint32_t& first = chain(number, device);
    inode.chained = first;
    first = link;
    return &inode;
  }
  // A kept record is used again, by the same file.
  FERRY_DEVICE void use_again(Inode& inode) const { leave(shared_.kept, inode); }
  // A record is used no more.
  FERRY_DEVICE void give_back(Inode& inode, bool keeps_pages) const {
    if (!keeps_pages) unchain(inode);
    InodeQueue& queue = keeps_pages ? shared_.kept : shared_.vacant;
    inode.older = queue.newest;
    queue.newest = link_to(inode);
    (inode.older != 0 ? record(inode.older).newer : queue.oldest) = queue.newest;
  }

 private:
  // Links are a record's index + 1; 0 ends a list.
  FERRY_DEVICE Inode& record(std::uint32_t link) const { return view_.inode(link - 1); }
  FERRY_DEVICE std::uint32_t link_to(const Inode& inode) const {
    return static_cast<std::uint32_t>(&inode - &view_.inode(0)) + 1;
  }
  FERRY_DEVICE void leave(InodeQueue& queue, Inode& inode) const {
    (inode.older != 0 ? record(inode.older).newer : queue.oldest) = inode.newer;
    (inode.newer != 0 ? record(inode.newer).older : queue.newest) = inode.older;
    inode.older = inode.newer = 0;
  }
  FERRY_DEVICE std::uint32_t& chain(std::uint64_t number, std::uint64_t device) const {
    const std::uint64_t mixed = (number ^ device * 0xff51afd7ed558ccdULL) * 0x9e3779b97f4a7c15ULL;
    return view_.chain(static_cast<std::uint32_t>(mixed >> 32));
  }
  FERRY_DEVICE void unchain(Inode& inode) const {
    std::uint32_t* link = &chain(inode.number, inode.device);
    while (&record(*link) != &inode)
      link = &record(*link).chained;
    *link = inode.chained;
    inode.chained = 0;
  }

  const View& view_;
  Shared& shared_;
};

}  // namespace ferry::device::cache
