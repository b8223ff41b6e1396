// Calls on the page cache itself: advice about it, views of what lies in it, and reads by which
// lanes share what they find there.
#pragma once

#include <cerrno>
#include <cstdint>

#include <ferry/device/cache/cached_files.hpp>
#include <ferry/device/control.hpp>
#include <ferry/device/copy.hpp>
#include <ferry/device/group_hold.hpp>
#include <ferry/device/transfer_calls.hpp>

namespace ferry::device {

// A base of FileCalls, which says what every call has in common.
template <class Group>
class PageCalls : public TransferCalls<Group> {
 public:
  // Asks for a range to be brought into the page cache, and does not wait for it. Advice: a runtime
  // without a cache, a file that is not cached and a cache that is busy do nothing. 0 or an errno.
  FERRY_DEVICE int prefetch(int file, std::int64_t offset, std::uint64_t bytes) {
    return leads([&] {
      return with_cached(file, [&](cache::CachedFiles& files, auto& entry) {
        return files.prefetch(entry, file, offset, bytes);
      });
    });
  }

  // Writes the file's dirty pages back and drops all of them, for whoever will not read them again
  // soon. Advice, too. 0, or the error that keeps something from the storage.
  FERRY_DEVICE int evict(int file) {
    return leads([&] {
      return with_cached(file, [&](cache::CachedFiles& files, auto& entry) {
        const Context& context = requester_.context();
        forget_bypasses(context, entry.inode, files.pages().size(entry.inode));
        return files.evict(entry);
      });
    });
  }

  // Shows up to `bytes` bytes at `offset` where they lie in the page cache, as far as their page
  // and the file go, until release(). Returns how many, 0 at the end of the file, or a negative
  // errno: -EOPNOTSUPP for files that are not cached, -EAGAIN where views hold half the cache or
  // what cannot be written back leaves no place. The view is read-only; it follows what calls of
  // any placement write there.
  FERRY_DEVICE std::int64_t hold(int file, std::int64_t offset, std::uint64_t bytes,
                                 cache::HeldView& view) {
    view = cache::HeldView{};
    const bool hit = leads([&] { return hold_hit(file, offset, bytes, view); });
    if (hit) {
      view = group_.broadcast(view);
      return static_cast<std::int64_t>(view.bytes);
    }
    const std::int64_t result = hold_together(group_, requester_, file, offset, bytes, view);
    if (result != -EBADF) return result;
    return leads([&] {  // of no file, or of one that is not cached
      return Base::template with_cached<std::int64_t>(
          file, [](auto&, auto&) { return std::int64_t{-EBADF}; }, -EOPNOTSUPP);
    });
  }
  // Every view has to be released, by the group that holds it; once, though a second time is
  // harmless.
  FERRY_DEVICE void release(cache::HeldView& view) {
    leads([&] { return release_pages(view); });
    view = cache::HeldView{};
  }

  // A read for each lane: of its own range, into its own buffer, with its own result. For groups
  // whose lanes can vote (a warp, or a part of one). Lanes whose bytes lie in the same cached page
  // share its lookup, and all lanes copy each lane's bytes.
  FERRY_DEVICE std::int64_t pread_each(int file, void* buffer, std::uint64_t bytes,
                                       std::int64_t offset) {
    std::int64_t result = 0;
    std::uint64_t left = group_.ballot(true);  // lanes that still have nothing
    while (left != 0) {
      const std::uint32_t first = Requester::lowest_bit(left);
      left &= ~read_page_of(first, left, file, Row{buffer, bytes, offset}, result);
    }
    return result;
  }

 protected:
  using Base = TransferCalls<Group>;
  using Base::group_;
  using Base::has_cache;
  using Base::hold_hit;
  using Base::leads;
  using Base::reads_cached;
  using Base::release_pages;
  using Base::requester_;
  using Base::with_cached;

  FERRY_DEVICE PageCalls(const Context& context, Group group, std::uint32_t group_index)
      : Base(context, group, group_index) {}

 private:
  // What one lane wants of pread_each().
  struct Row {
    void* to = nullptr;
    std::uint64_t bytes = 0;
    std::int64_t offset = 0;
  };
  // Serves lane `first`, and those of `lanes` that want something of the same page; sets the
  // results of the lanes that it served, and returns which.
  FERRY_DEVICE std::uint64_t read_page_of(std::uint32_t first, std::uint64_t lanes, int file,
                                          const Row& row, std::int64_t& result) {
    const Row lead = group_.shuffle(row, first);
    const std::uint64_t page_bytes = has_cache() ? requester_.context().cache.page_bytes() : 0;
    const auto within = [&](const Row& one) {  // a page, which may not be there
      return page_bytes != 0 && one.to != nullptr && one.bytes > 0 && one.offset >= 0 &&
             one.bytes <= page_bytes - (static_cast<std::uint64_t>(one.offset) & (page_bytes - 1));
    };
    const std::uint64_t page = page_bytes != 0 ? ~(page_bytes - 1) : 0;
    const auto start = static_cast<std::int64_t>(static_cast<std::uint64_t>(lead.offset) & page);
    const bool same =
        within(row) && within(lead) && reads_cached() &&
        (static_cast<std::uint64_t>(row.offset) & page) == static_cast<std::uint64_t>(start);
    const std::uint64_t served = group_.ballot(same) & lanes;
    cache::HeldView view;
    const std::int64_t held = served != 0 ? hold(file, start, page_bytes, view) : -1;
    if (held <= 0) {  // not cached, an error, or the end of the file: as the plain call has it
      // Not ::pread(), which is what the bare name means where <unistd.h> is.
      const std::int64_t alone = this->pread(file, lead.to, lead.bytes, lead.offset);
      if (group_.lane() == first) result = alone;
      return std::uint64_t{1} << first;
    }
    for (std::uint64_t rest = served; rest != 0; rest &= rest - 1) {
      const std::uint32_t lane = Requester::lowest_bit(rest);
      const Row one = group_.shuffle(row, lane);
      const auto at = static_cast<std::uint64_t>(one.offset - start);
      const std::uint64_t there = at < view.bytes ? view.bytes - at : 0;
      const std::uint64_t step = one.bytes < there ? one.bytes : there;
      copy_bytes(group_, one.to, view.data + at, step);
      if (group_.lane() == lane) result = static_cast<std::int64_t>(step);
    }
    release(view);
    return served;
  }
};

}  // namespace ferry::device
