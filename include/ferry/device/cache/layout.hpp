// The page cache in device memory: its data structures and their layout.
//
//   | Shared | Flight[] | Counters[], Mark[], Reader[] by group | Inode[] | OpenFile[] | Bucket[] |
//   | Frame[] | pages ... |
//
// Only device threads use it; the server only sees pages, as targets of reads and sources of
// writes. As everywhere in an arena, all references are offsets.
//
// Terms: a *page* is an aligned piece of a file of `page_bytes`. A *frame* is a place for one page.
// The *table* finds a page's frame. An *inode* is a file, opened any number of times; its number
// changes when its record is reused, so that a stale handle finds no page of the new file.
#pragma once

#include <cstddef>
#include <cstdint>

#include <ferry/device/copy.hpp>
#include <ferry/device/platform.hpp>
#include <ferry/device/ring.hpp>
#include <ferry/device/storage_tuning.hpp>

namespace ferry::device::cache {

inline constexpr std::uint32_t page_bytes_min = 4096;
inline constexpr std::uint32_t page_bytes_max = 2 << 20;
inline constexpr unsigned frame_bits = 24;  // of a frame number + 1
inline constexpr std::uint32_t frames_max = (1U << frame_bits) - 2;
inline constexpr std::uint32_t flights_max = 64;
inline constexpr std::uint32_t no_frame = ~0U;

struct CacheGeometry {
  std::uint32_t page_bytes = 64 * 1024;  // a power of two
  std::uint32_t frames = 0;              // 0: no cache
  std::uint32_t inodes = 0;              // the maximum of open files; a power of two
  std::uint32_t groups = 0;
  std::uint32_t flights = 0;  // maximum of transfers in flight that no call waits for
};

// Optimisations that a study can switch off to measure their gain (Murty, Sudarsan, section 4).
// Results are the same without them, only slower.
struct Switches {
  bool batched_allocation = true;  // takes all frames of a call together; else one by one
  bool batched_insertion = true;   // enters the pages of a call together; likewise
  bool precomputed_hash = true;    // each frame keeps its page's hash; else computed at every use
  bool streaming_copies = true;    // large copies bypass the core's caches; else plain memcpy
  bool quiet_wakeups = true;       // wakes only if a thread waits
  bool readahead = true;           // reads ahead for sequential and strided readers
};

// Enough to keep a fast disk busy, but few in a small cache: each holds frames.
inline std::uint32_t flights_for(std::uint32_t frames) {
  return frames / 8 < 2 ? 2 : frames / 8 > flights_max ? flights_max : frames / 8;
}

// A range of bytes inside a page.
struct Range {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
};

// The state of a frame: one word, changed only by read-modify-write, so that a badly timed pin only
// costs its owner a retry.
//
//   - pins: parties that use the frame now. A pinned frame is not reused.
//   - writers: those of them that copy into it now, or out of a page that is not valid.
//   - valid: every byte of the page is present.
//   - dirty: the frame has unwritten ranges; set and cleared under its range lock.
//   - filling: one thread reads from storage into the frame; others do not touch its bytes.
//   - writing: one thread writes ranges of it to storage; others may read and write its bytes.
//   - orphan: removed from the table, or about to be; a party that finds it looks again.
//   - taken: free, or being reused for another page; a party that finds it looks again.
//   - waited: a thread sleeps until filling or writing ends.
//   - touched: used since the clock's hand passed.
//   - ahead: brought in by readahead, and not used yet.
//
// filling and writing exclude each other; filling also needs writers == 0.
// Pins and writers never overflow (asserted below). All that a hit checks is within 32 bits, for a
// single instruction.
struct State {
  static constexpr unsigned count_bits = 24;  // of pins and writers
  static constexpr unsigned first_flag = count_bits;
  static constexpr unsigned first_writer = 40;
  static constexpr std::uint64_t one_pin = 1;
  static constexpr std::uint64_t pins = (std::uint64_t{1} << count_bits) - 1;
  static constexpr std::uint64_t valid = std::uint64_t{1} << first_flag;
  static constexpr std::uint64_t dirty = std::uint64_t{1} << (first_flag + 1);
  static constexpr std::uint64_t filling = std::uint64_t{1} << (first_flag + 2);
  static constexpr std::uint64_t writing = std::uint64_t{1} << (first_flag + 3);
  static constexpr std::uint64_t orphan = std::uint64_t{1} << (first_flag + 4);
  static constexpr std::uint64_t taken = std::uint64_t{1} << (first_flag + 5);
  static constexpr std::uint64_t touched = std::uint64_t{1} << (first_flag + 6);
  static constexpr std::uint64_t ahead = std::uint64_t{1} << (first_flag + 7);
  static constexpr std::uint64_t waited = std::uint64_t{1} << (first_flag + 8);
  static constexpr std::uint64_t one_writer = std::uint64_t{1} << first_writer;
  static constexpr std::uint64_t writers = pins << first_writer;
};
static_assert(State::ahead < std::uint64_t{1} << 32 && State::waited < State::one_writer);
static_assert(State::first_writer + State::count_bits == 64);

// Maximum groups of a device. A call of a group has at most three pins of a page, and one more
// while it finds that a frame holds another page; views hold at most half the frames. So the counts
// of a state word cannot overflow.
inline constexpr std::uint32_t groups_max = (1U << 20) + (1U << 16);
inline constexpr std::uint32_t pins_of_a_call = 4;
static_assert((frames_max + 1) / 2 + std::uint64_t{groups_max} * pins_of_a_call + flights_max <=
              State::pins);

inline constexpr std::uint32_t ranges_max = 4;

struct alignas(cache_line_bytes) Frame {
  std::uint64_t state;
  std::uint64_t key;         // of the page; in a free frame, the next free one
  std::uint32_t wake;        // futex word: grows when filling or writing ends
  std::uint32_t range_lock;  // 0 free, 1 held; guards the ranges and `dirty`
  std::uint16_t range_count;
  std::uint16_t taken_count;  // ranges being written to storage; their places stay free
  std::uint32_t flight;       // its transfer in flight, + 1; 0: a call fills or writes it
  Range ranges[ranges_max];   // written and not yet in storage; sorted, not touching each other
};
static_assert(sizeof(Frame) == in_lines(64));

// One cache line of the table. An entry is 0, or 40 bits of the key and the frame number + 1.
struct alignas(cache_line_bytes) Bucket {
  static constexpr std::uint32_t entries_max = 7;
  std::uint64_t entries[entries_max];
  std::uint32_t lock;  // 0 free, 1 held; for inserting or removing pages of this bucket
  // Entries of this bucket or an earlier one that are in later buckets.
  std::uint32_t overflow;
};
static_assert(sizeof(Bucket) == in_lines(64));

// A page's name: 24 bits of inode, 40 bits of page number. The last number is unused, so that the
// name after a page's never belongs to another file. Bytes beyond a file's last page number are not
// cached (View::bytes_max).
inline constexpr std::uint32_t page_number_bits = 40;
inline constexpr std::uint32_t inode_bits = 24;
inline constexpr std::uint64_t pages_max = (std::uint64_t{1} << page_number_bits) - 1;
// Pages [first, end) of a file; by default, all of them.
struct Pages {
  std::uint64_t first = 0;
  std::uint64_t end = pages_max;
};

struct alignas(cache_line_bytes) Inode {
  // Bits of `outside`: a call is in flight; a thread sleeps until that changes; and above, the
  // number of groups with a turn.
  static constexpr std::uint32_t outside_active = 1;
  static constexpr std::uint32_t outside_waited = 2;
  static constexpr std::uint32_t outside_turn = 4;
  static constexpr std::uint32_t outside_kept = 8;
  // As seen by this device, including dirty data. At most View::bytes_max(), so that all bytes
  // below have a name; for longer files the storage knows the size.
  std::uint64_t size_bytes;
  std::uint64_t dirty_pages;    // dirty or being written: 0 means that storage has everything
  std::uint64_t outside_count;  // calls so far that changed the file past the cache (outside.hpp)
  std::uint32_t outside;        // futex word; bits above
  std::int32_t write_handle;    // the open handle for write-backs; 0: none is suitable
  std::int32_t write_error;     // the last errno (> 0) of a write-back
  std::uint32_t write_errors;   // their number; handles remember what they reported
  std::uint32_t id;             // current number: the record's index + a multiple of `inodes`
  // The result of the last write-back: 0 or an errno. While it is an errno, only calls that need
  // the file's pages written retry, with one request.
  std::int32_t failing;
  std::uint32_t references;  // open handles; guarded by open_lock, like the following
  std::uint32_t storage;     // index of its storage in Shared's counts
  std::uint64_t number;      // identifies the file on the storage
  std::uint64_t device;
  // FileStatus::version of the contents of clean pages. 0: unknown, or no pages. Outside calls also
  // change it, in turns.
  std::uint64_t version;
  std::uint64_t tuning;  // index of its storage in View::tunings
  // After the last page ever entered under this number: the end for searches of the file's pages.
  std::uint64_t page_end;
  std::uint32_t kept_id;  // while references == 0 and version != 0: the number of its pages
  // Futex word. 0: free; 1: an open or a close works on the record, without open_lock; 2: and a
  // thread sleeps until it has ended.
  std::uint32_t busy;
  // Links of InodeIndex, under open_lock: the next of its chain, and its neighbours in its queue.
  std::uint32_t chained;
  std::uint32_t older;
  std::uint32_t newer;
  std::uint32_t writers;  // open handles that can write back others' data; under open_lock
  std::uint32_t unused[2];
  Pages outside_pages[outside_kept];  // what the last calls changed, by their number
};
static_assert(sizeof(Inode) == in_lines(256));

// An open handle, by its index.
struct OpenFile {
  // The handle that owns this entry. 0: none, or an uncached file. The negative of a handle: a
  // close has removed it from the cache.
  std::int32_t handle;
  // The inode's number. Stored (release) while `handle` is 0 or less, and read (acquire) by
  // may_hit() before `handle`, which then tells whether a closed handle's entry is being reused.
  std::uint32_t inode;
  std::uint32_t access;           // bits below
  std::uint32_t errors_reported;  // Inode::write_errors at its last report
  static constexpr std::uint32_t readable = 1;
  static constexpr std::uint32_t writable = 2;
  static constexpr std::uint32_t appends = 4;
  static constexpr std::uint32_t synchronous = 8;
};
static_assert(sizeof(OpenFile) == 16);

// A group's counters of its own use of the cache; one writer each.
struct alignas(cache_line_bytes) Counters {
  std::uint64_t hits;        // pages found
  std::uint64_t misses;      // pages that were not there
  std::uint64_t fills;       // requests that read pages
  std::uint64_t fill_bytes;  // pages they read
  std::uint64_t evictions;
  std::uint64_t write_backs;       // requests that wrote dirty ranges
  std::uint64_t write_back_bytes;  // bytes they wrote
  std::uint64_t waits;             // for a page that another thread was filling or writing
  std::uint64_t readahead_issued;  // pages requested ahead of a reader or by prefetch
  std::uint64_t readahead_used;    // of those, pages used later
  std::uint64_t readahead_wasted;  // of those, pages evicted or dropped unused
  std::uint64_t reserved[5];
};
static_assert(sizeof(Counters) == in_lines(128));

// Maximum pages of one request.
inline constexpr std::uint32_t run_max = 32;

// A transfer that no call waits for: readahead, and background write-back. The first party that
// needs its data ends it (transfers.hpp).
struct alignas(cache_line_bytes) Flight {
  // Two bits of phase, and above them the flight's number, so that a party ends only the transfer
  // it saw.
  enum Phase : std::uint32_t { free = 0, claimed = 1, under_way = 2, ending = 3 };
  // The last: a sync follows, so the storage may start writing to its medium.
  enum Kind : std::uint32_t { reads = 0, writes, writes_for_sync };
  std::uint64_t state;
  std::uint64_t offset;   // in the file
  std::uint64_t bytes;    // wanted
  std::uint64_t outside;  // Inode::outside_count when it began
  std::uint32_t inode;    // its number
  std::uint32_t loop;     // of the server that answers it
  std::uint32_t count;    // frames
  std::uint32_t kind;     // a Kind
  std::uint32_t storage;  // Inode::storage
  std::uint32_t reserved[3];
  std::uint32_t frames[run_max];
  Range ranges[run_max];  // of a write-back: the ranges of each frame
};
static_assert(sizeof(Flight) == in_lines(448));

// A series of similar reads by one group: each begins `stride` pages after the previous one.
struct alignas(cache_line_bytes) Stream {
  std::uint64_t start;   // first page of the last read
  std::uint64_t stride;  // 0: only one read is known
  std::uint64_t ahead;   // first page not requested yet
  std::uint32_t inode;
  std::uint32_t length;  // pages of the last read; 0: the record is unused
  std::uint32_t window;  // how many pages it may be ahead
  std::uint32_t fits;    // reads that were predicted
  std::uint32_t reserved[6];
};
static_assert(sizeof(Stream) == in_lines(64));
inline constexpr std::uint32_t streams_max = 8;

// A group's memory of its own reads. Only its leader uses it.
struct alignas(cache_line_bytes) Reader {
  Stream streams[streams_max];
  std::uint64_t last_key;     // of the page it used last, whose next piece is no second use
  std::uint32_t next_stream;  // the next to evict
  std::uint32_t views;        // additional ones it may hold; part of Shared::held_pages
  std::uint32_t tries;        // consecutive failures caused by outside calls (outside.hpp)
  // What follows its writes by placement `automatic` (FlushHabit in placement_policy.hpp).
  std::uint32_t flushes;   // 0 to 3: how often a flush did, lately
  std::int32_t unflushed;  // the handle of the last one, if nothing has followed yet; 0: none
  std::uint32_t reserved[9];
};
static_assert(sizeof(Reader) == (streams_max + 1) * in_lines(64));

// A group's list of ranges being written (write_back.hpp). Not on the stack, which a GPU allocates
// for each of its threads.
inline constexpr std::uint64_t work_bytes = in_lines(1856);

// The frame that a group reads now without a pin (hazard_pointers.hpp). On its own cache line, so
// that a read writes to nothing shared.
struct alignas(cache_line_bytes) HazardPointer {
  std::uint32_t frame;  // its number + 1; 0: none
  std::uint32_t reserved[15];
};
static_assert(sizeof(HazardPointer) == in_lines(64));

// Storages with separate counts; beyond this number they share.
inline constexpr std::uint32_t storages_max = 16;
// `device`: FileStatus::device of a file on it.
FERRY_DEVICE inline std::uint32_t storage_of(std::uint64_t device) {
  return static_cast<std::uint32_t>((device * 0x9e3779b97f4a7c15ULL) >> 60);
}
static_assert(storages_max == 1U << 4);

// Records of InodeIndex, by links; 0: none.
struct InodeQueue {
  std::uint32_t oldest;
  std::uint32_t newest;
};

struct Shared {
  alignas(cache_line_bytes) std::uint64_t hand;  // of the clock; modulo the number of frames
  // The first free frame + 1 in the low frame_bits; the bits above change with every update.
  alignas(cache_line_bytes) std::uint64_t free_frames;
  alignas(cache_line_bytes) std::uint64_t dirty_pages;  // of all files; see Inode::dirty_pages
  std::uint32_t held_pages;                             // pinned by views, or reserved for groups
  std::uint32_t flush_hand;  // where the next background write-back looks
  // 0 free, 1 held: opening, closing. Its holder calls no storage and waits for nothing else: slow
  // work happens on a `busy` record.
  alignas(cache_line_bytes) std::uint32_t open_lock;
  std::uint32_t stopping;  // 1: cached writes may not begin any more
  // Records that no handle uses (InodeIndex), under open_lock.
  InodeQueue vacant;
  InodeQueue kept;
  // Claimed flights and those in flight: their number, the pages they fill, and the number per
  // storage.
  alignas(cache_line_bytes) std::uint32_t flights;
  std::uint32_t flying_pages;
  alignas(cache_line_bytes) std::uint32_t flights_of[storages_max];
};
static_assert(sizeof(Shared) == 6 * in_lines(64));

// The layout, in bytes from the start of the cache.
struct CacheLayout {
  CacheGeometry geometry;
  std::uint32_t page_shift = 0;
  std::uint32_t bucket_mask = 0;
  std::uint32_t dirty_low = 0;  // background write-back starts above this number of dirty pages
  // Above this number, writers wait for their own storage, and readahead that would exceed it
  // stops. So a storage that hangs leaves a quarter of the cache to others.
  std::uint32_t dirty_high = 0;
  std::uint64_t flights = 0;
  std::uint64_t counters = 0;
  std::uint64_t marks = 0;
  std::uint64_t readers = 0;
  std::uint64_t works = 0;
  std::uint64_t inodes = 0;
  std::uint64_t open_files = 0;
  std::uint64_t chains = 0;
  std::uint64_t buckets = 0;
  std::uint64_t frames = 0;
  std::uint64_t pages = 0;
  std::uint64_t bytes = 0;
};

// Of the cache's memory and of its pages in it: as large as a page of the kernel, on processors
// with large ones too, if the cache's pages are. A process may then have other rights on them than
// on the records before them.
inline std::uint64_t alignment_bytes(const CacheGeometry& geometry) {
  constexpr std::uint32_t kernel_page_bytes_max = 64 * 1024;
  return geometry.page_bytes < kernel_page_bytes_max ? geometry.page_bytes : kernel_page_bytes_max;
}

// `page_bytes` is a power of two within the limits above, `inodes` any.
inline CacheLayout lay_out(CacheGeometry geometry) {
  CacheLayout layout;
  std::uint32_t inodes = 1;
  while (inodes < geometry.inodes)
    inodes *= 2;
  geometry.inodes = inodes;
  layout.geometry = geometry;
  while ((1U << layout.page_shift) < geometry.page_bytes)
    ++layout.page_shift;
  // Half full at most, so that pages are nearly always in their first bucket.
  std::uint32_t buckets = 1;
  while (std::uint64_t{buckets} * Bucket::entries_max < 2 * std::uint64_t{geometry.frames})
    buckets *= 2;
  layout.bucket_mask = buckets - 1;
  layout.dirty_low = geometry.frames / 2;
  layout.dirty_high = geometry.frames - geometry.frames / 4;
  layout.flights = sizeof(Shared);
  layout.counters = layout.flights + geometry.flights * sizeof(Flight);
  layout.marks = layout.counters + geometry.groups * sizeof(Counters);
  layout.readers = layout.marks + geometry.groups * sizeof(HazardPointer);
  layout.works = layout.readers + geometry.groups * sizeof(Reader);
  layout.inodes = layout.works + geometry.groups * work_bytes;
  layout.open_files = layout.inodes + geometry.inodes * sizeof(Inode);
  layout.chains = layout.open_files + geometry.inodes * sizeof(OpenFile);
  const std::uint64_t chains_end = layout.chains + geometry.inodes * sizeof(std::uint32_t);
  layout.buckets = in_lines(chains_end);
  layout.frames = layout.buckets + std::uint64_t{buckets} * sizeof(Bucket);
  const std::uint64_t end = layout.frames + geometry.frames * sizeof(Frame);
  const std::uint64_t align = alignment_bytes(geometry);
  layout.pages = (end + align - 1) / align * align;
  layout.bytes = layout.pages + std::uint64_t{geometry.frames} * geometry.page_bytes;
  return layout;
}

FERRY_DEVICE inline std::uint64_t key_of(std::uint32_t inode, std::uint64_t page) {
  return (std::uint64_t{inode} << page_number_bits) | page;
}
FERRY_DEVICE inline std::uint32_t inode_of(std::uint64_t key) {
  return static_cast<std::uint32_t>(key >> page_number_bits);
}
FERRY_DEVICE inline std::uint64_t page_of(std::uint64_t key) {
  return key & ((std::uint64_t{1} << page_number_bits) - 1);
}
// A key with the file's number in all of its bits (a factor of Steele, Lea and Flood's SplitMix,
// 2014): its lower bits decide where a page is in the table, and many files have the same pages.
FERRY_DEVICE inline std::uint64_t folded(std::uint64_t key) {
  return key ^ inode_of(key) * 0xbf58476d1ce4e5b9ULL;
}
// Four neighbouring pages share a bucket, so that they are entered under one lock and found on one
// cache line. Fibonacci hashing spreads groups of four.
inline constexpr unsigned bucket_group_bits = 2;
FERRY_DEVICE inline std::uint32_t hash_of(std::uint64_t key) {
  return static_cast<std::uint32_t>(((folded(key) >> bucket_group_bits) * 0x9e3779b97f4a7c15ULL) >>
                                    32);
}
FERRY_DEVICE inline bool same_bucket(std::uint64_t one_key, std::uint64_t other_key) {
  return one_key >> bucket_group_bits == other_key >> bucket_group_bits;
}

struct View {
  unsigned char* base = nullptr;
  CacheLayout layout;
  Switches switches;
  StreamingCopies streaming;
  // Evictions run HostHooks::barrier_everywhere, so that marks need no barrier.
  bool barriers_everywhere = false;
  // Whether a read that hits marks its frame (hazard_pointers.hpp) instead of pinning it.
  bool marks = true;
  StorageTunings tunings;

  template <class T>
  FERRY_DEVICE T& at(std::uint64_t offset, std::uint64_t index) const {
    return *(reinterpret_cast<T*>(base + offset) + index);
  }
  FERRY_DEVICE Shared& shared() const { return at<Shared>(0, 0); }
  FERRY_DEVICE Counters& counters(std::uint32_t group) const {
    return at<Counters>(layout.counters, group);
  }
  FERRY_DEVICE Flight& flight(std::uint32_t index) const {
    return at<Flight>(layout.flights, index);
  }
  FERRY_DEVICE HazardPointer& mark(std::uint32_t group) const {
    return at<HazardPointer>(layout.marks, group);
  }
  FERRY_DEVICE Reader& reader(std::uint32_t group) const {
    return at<Reader>(layout.readers, group);
  }
  FERRY_DEVICE unsigned char* work(std::uint32_t group) const {
    return base + layout.works + group * work_bytes;
  }
  FERRY_DEVICE Inode& inode(std::uint32_t id) const {
    return at<Inode>(layout.inodes, id & (layout.geometry.inodes - 1));
  }
  FERRY_DEVICE const StorageTuning& tuning(std::uint32_t id) const {
    return tunings.list[inode(id).tuning];
  }
  // A handle's entry. Their number is that of open files, rounded up to a power of two: handles of
  // other files differ in the bits used.
  FERRY_DEVICE OpenFile& open_file(std::int32_t handle) const {
    return open_file_at(static_cast<std::uint32_t>(handle));
  }
  FERRY_DEVICE OpenFile& open_file_at(std::uint32_t index) const {
    return at<OpenFile>(layout.open_files, index & (layout.geometry.inodes - 1));
  }
  // The first link of a chain of InodeIndex; as many as records.
  FERRY_DEVICE std::uint32_t& chain(std::uint32_t hash) const {
    return at<std::uint32_t>(layout.chains, hash & (layout.geometry.inodes - 1));
  }
  FERRY_DEVICE Bucket& bucket(std::uint64_t index) const {
    return at<Bucket>(layout.buckets, index & layout.bucket_mask);
  }
  FERRY_DEVICE Frame& frame(std::uint32_t index) const { return at<Frame>(layout.frames, index); }
  FERRY_DEVICE unsigned char* page(std::uint32_t frame) const {
    return base + layout.pages + (std::uint64_t{frame} << layout.page_shift);
  }
  FERRY_DEVICE std::uint32_t page_bytes() const { return layout.geometry.page_bytes; }
  // The cacheable part of a file.
  FERRY_DEVICE std::uint64_t bytes_max() const { return pages_max << layout.page_shift; }
  FERRY_DEVICE std::uint64_t size_of(std::uint64_t bytes) const {
    return bytes < bytes_max() ? bytes : bytes_max();
  }
  // The pages of a range of bytes, as far as cacheable.
  FERRY_DEVICE Pages pages_of(std::uint64_t offset, std::uint64_t bytes) const {
    const Pages all;
    const std::uint64_t first = offset >> layout.page_shift;
    if (first >= all.end || bytes == 0) return Pages{0, 0};
    const std::uint64_t length = ((offset & (page_bytes() - 1)) + bytes - 1) >> layout.page_shift;
    return Pages{first, length < all.end - first ? first + length + 1 : all.end};
  }
};

// Makes an empty cache in zeroed memory.
inline void prepare(const View& view) {
  const std::uint32_t frames = view.layout.geometry.frames;
  for (std::uint32_t i = 0; i < frames; ++i) {
    view.frame(i).state = State::taken;
    view.frame(i).key = i + 1 < frames ? i + 2 : 0;
  }
  view.shared().free_frames = frames > 0 ? 1 : 0;
  const std::uint32_t inodes = view.layout.geometry.inodes;
  for (std::uint32_t i = 0; i < inodes; ++i) {
    view.inode(i).id = i;
    view.inode(i).older = i;
    view.inode(i).newer = i + 1 < inodes ? i + 2 : 0;
  }
  view.shared().vacant = InodeQueue{1, inodes};
}

}  // namespace ferry::device::cache
