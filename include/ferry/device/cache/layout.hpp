// The page cache in device memory: what it consists of and where that lies.
//
//   | Shared | Flight[] | Counters[], Mark[], Reader[] by group | Inode[] | OpenFile[] | Bucket[] |
//   | Frame[] | pages ... |
//
// Only device threads touch it; the server sees nothing but the pages, as the target of reads and
// the source of writes. Offsets only, like everything in an arena.
//
// Words: a *page* is a piece of a file, `page_bytes` long and as much aligned. A *frame* is a place
// for one page in the cache. The *table* finds the frame of a page. An *inode* is a file, however
// often it is open; its number changes when its record is given to another file, so that whoever
// still uses a closed handle finds no page of the new one.
#pragma once

#include <cstddef>
#include <cstdint>

#include <ferry/device/platform.hpp>
#include <ferry/device/ring.hpp>
#include <ferry/device/storage_tuning.hpp>

namespace ferry::device::cache {

inline constexpr std::uint32_t page_bytes_min = 4096;
inline constexpr std::uint32_t page_bytes_max = 2 << 20;
inline constexpr unsigned frame_bits = 24;  // of a frame's number + 1
inline constexpr std::uint32_t frames_max = (1U << frame_bits) - 2;
inline constexpr std::uint32_t flights_max = 64;
inline constexpr std::uint32_t no_frame = ~0U;

struct Geometry {
  std::uint32_t page_bytes = 64 * 1024;  // a power of two
  std::uint32_t frames = 0;              // 0: there is no cache
  std::uint32_t inodes = 0;              // as many files as can be open; a power of two
  std::uint32_t groups = 0;
  std::uint32_t flights = 0;  // transfers under way that no call waits for, at most
};

// What may be switched off, so that a study can show what each is worth (paper 003, section 4).
// Everything is right with any of them off, only slower.
struct Switches {
  bool batched_allocation = true;  // all frames of one call at once; else one by one
  bool batched_insertion = true;   // the pages of one call entered at once; likewise
  bool precomputed_hash = true;    // each frame keeps its page's hash; else computed at every use
  bool streaming_copies = true;    // large copies past the core's caches; else plain memcpy
  bool quiet_wakeups = true;       // nobody is woken where nobody waits
  bool readahead = true;           // sequential and strided readers get pages ahead of them
};

// Enough to keep a fast disk busy, and few where the cache is small: each holds frames.
inline std::uint32_t flights_for(std::uint32_t frames) {
  return frames / 8 < 2 ? 2 : frames / 8 > flights_max ? flights_max : frames / 8;
}

// A range of bytes inside a page.
struct Range {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
};

// The state of a frame: one word, changed by read-modify-write only, so that a pin that comes at
// the wrong time costs its owner a retry and nobody anything else.
//
//   - pins: who uses the frame just now. Nothing takes away a frame that is pinned.
//   - writers: of those, who copies into it just now, or out of a page that is not valid.
//   - valid: every byte of the page is there.
//   - dirty: the frame has ranges that the storage has not; set and cleared under its range lock.
//   - filling: one thread reads from the storage into the frame; everyone else keeps off its bytes.
//   - writing: one thread writes ranges of it to the storage; bytes may be read and written
//     meanwhile.
//   - orphan: not in the table any more, or about to leave it; whoever finds it looks again.
//   - taken: free, or being given to another page; whoever finds it looks again.
//   - waited: somebody sleeps until filling or writing ends.
//   - touched: used since the clock's hand came by.
//   - ahead: brought in by readahead, and nobody has used it yet.
//
// filling and writing exclude each other; filling also needs writers == 0.
// Pins and writers have room for all that there can be (asserted below). What a hit looks at lies
// within 32 bits, which is one instruction.
struct State {
  static constexpr unsigned count_bits = 24;  // of pins, and of writers
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

// Groups of one device, at most. One that makes a call has at most three pins of a page for it, and
// one more while it finds that a frame is another page's; views hold at most half the frames. So no
// count of a state word can run over.
inline constexpr std::uint32_t groups_max = (1U << 20) + (1U << 16);
inline constexpr std::uint32_t pins_of_a_call = 4;
static_assert((frames_max + 1) / 2 + std::uint64_t{groups_max} * pins_of_a_call + flights_max <=
              State::pins);

inline constexpr std::uint32_t ranges_max = 4;

struct alignas(cache_line_bytes) Frame {
  std::uint64_t state;
  std::uint64_t key;         // of the page; while the frame is free, the next free one
  std::uint32_t wake;        // futex word: grows when filling or writing ends
  std::uint32_t range_lock;  // 0 free, 1 held; guards the ranges and `dirty`
  std::uint16_t range_count;
  std::uint16_t taken_count;  // ranges on their way to the storage; their places stay free
  std::uint32_t flight;       // the transfer under way that fills or writes it, + 1; 0: a call does
  Range ranges[ranges_max];   // written and not yet in the storage; sorted, not touching each other
};
static_assert(sizeof(Frame) == 64);

// One line of the table. An entry is 0, or 40 bits of the key and the frame's number + 1.
struct alignas(cache_line_bytes) Bucket {
  static constexpr std::uint32_t entries_max = 7;
  std::uint64_t entries[entries_max];
  std::uint32_t lock;  // 0 free, 1 held; of whoever inserts or removes a page that belongs here
  // How many entries that belong to this bucket or to one before it lie behind it.
  std::uint32_t overflow;
};
static_assert(sizeof(Bucket) == 64);

// A page's name: 24 bits of inode, 40 bits of page number. The last number is no page's, so that
// the name behind a page's is never one of another file. What lies behind the last page of a file
// is not cached (View::bytes_max).
inline constexpr std::uint32_t page_number_bits = 40;
inline constexpr std::uint32_t inode_bits = 24;
inline constexpr std::uint64_t pages_max = (std::uint64_t{1} << page_number_bits) - 1;
// Pages [first, end) of a file; as it stands, all of them.
struct Pages {
  std::uint64_t first = 0;
  std::uint64_t end = pages_max;
};

struct alignas(cache_line_bytes) Inode {
  // Bits of `outside`: a call is under way; somebody sleeps until that changes; and from there up,
  // how many groups have a turn.
  static constexpr std::uint32_t outside_active = 1;
  static constexpr std::uint32_t outside_waited = 2;
  static constexpr std::uint32_t outside_turn = 4;
  static constexpr std::uint32_t outside_kept = 8;
  // As this device sees it: what is dirty counts. At most View::bytes_max(), so that what lies in
  // the file by this size has a name; longer files are as long as the storage says.
  std::uint64_t size_bytes;
  std::uint64_t dirty_pages;    // dirty or on their way to the storage: 0 means that it has all
  std::uint64_t outside_count;  // calls so far that change the file past the cache (outside.hpp)
  std::uint32_t outside;        // futex word; bits above
  std::int32_t write_handle;    // the open handle that write-backs use; 0: none may
  std::int32_t write_error;     // the last errno (> 0) of a write-back
  std::uint32_t write_errors;   // how many there have been; handles remember what they reported
  std::uint32_t id;  // its number at present: the record's index + a multiple of `inodes`
  // What the last write-back came to: 0 or an errno. While it is one, nobody tries the file's pages
  // but who needs them written, and then one request tells.
  std::int32_t failing;
  std::uint32_t references;  // open handles; this and what follows is guarded by open_lock
  std::uint32_t storage;     // which of Shared's counts are those of the storage it lies on
  std::uint64_t number;      // which file of the storage this is
  std::uint64_t device;
  // FileStatus::version of what clean pages hold. 0: unknown, or there are none. Also changed by
  // outside calls, which take turns.
  std::uint64_t version;
  std::uint64_t tuning;  // View::tunings' of the storage it lies on
  // Behind the last page that was ever entered under this number: whoever looks for all pages of
  // the file looks no further.
  std::uint64_t page_end;
  std::uint32_t kept_id;  // while references == 0 and version != 0: the number of its pages
  // Futex word. 0: nobody; 1: an open or a close works on the record, without open_lock; 2: and
  // somebody sleeps until it has ended.
  std::uint32_t busy;
  std::uint64_t unused[3];
  Pages outside_pages[outside_kept];  // what the last calls changed, by their number
};
static_assert(sizeof(Inode) == 256);

// An open handle, by its index.
struct OpenFile {
  // Whose entry this is. 0: nobody's, or a file that is not cached. The negative of a handle: a
  // close has taken it from the cache.
  std::int32_t handle;
  // Its number. Stored (release) while `handle` is 0 or less, and by may_hit() read (acquire)
  // before it: a handle that is closed, whose entry another open is taking, is told by `handle`
  // then.
  std::uint32_t inode;
  std::uint32_t access;           // bits below
  std::uint32_t errors_reported;  // Inode::write_errors when it last told of one
  static constexpr std::uint32_t readable = 1;
  static constexpr std::uint32_t writable = 2;
  static constexpr std::uint32_t appends = 4;
  static constexpr std::uint32_t synchronous = 8;
};
static_assert(sizeof(OpenFile) == 16);

// What a group counts about its own use of the cache; one writer each.
struct alignas(cache_line_bytes) Counters {
  std::uint64_t hits;        // pages found
  std::uint64_t misses;      // pages that were not there
  std::uint64_t fills;       // requests that read pages
  std::uint64_t fill_bytes;  // what those brought
  std::uint64_t evictions;
  std::uint64_t write_backs;       // requests that wrote dirty ranges
  std::uint64_t write_back_bytes;  // what those wrote
  std::uint64_t waits;             // for a page that another thread was filling or writing
  std::uint64_t readahead_issued;  // pages asked for ahead of a reader or by prefetch
  std::uint64_t readahead_used;    // of those, pages that were read then
  std::uint64_t readahead_wasted;  // of those, pages that were evicted or dropped unread
  std::uint64_t reserved[5];
};
static_assert(sizeof(Counters) == 128);

// Pages of one request at most.
inline constexpr std::uint32_t run_max = 32;

// A transfer that no call waits for: readahead, and write-backs in the background. Whoever first
// wants what it brings ends it (transfers.hpp).
struct alignas(cache_line_bytes) Flight {
  // Two bits of phase, and above them the flight's number, so that nobody ends another transfer
  // than the one he saw.
  enum Phase : std::uint32_t { free = 0, claimed = 1, under_way = 2, ending = 3 };
  // The last: a sync follows, so the storage may begin with the bytes on its medium.
  enum Kind : std::uint32_t { reads = 0, writes, writes_for_sync };
  std::uint64_t state;
  std::uint64_t offset;   // in the file
  std::uint64_t bytes;    // wanted
  std::uint64_t outside;  // Inode::outside_count when it began
  std::uint32_t inode;    // its number
  std::uint32_t loop;     // of the server, that answers it
  std::uint32_t count;    // frames
  std::uint32_t kind;     // a Kind
  std::uint32_t storage;  // Inode::storage
  std::uint32_t reserved[3];
  std::uint32_t frames[run_max];
  Range ranges[run_max];  // of a write-back: what of each frame
};
static_assert(sizeof(Flight) == 448);

// A row of reads by one group that look alike: each begins `stride` pages behind the one before.
struct alignas(cache_line_bytes) Stream {
  std::uint64_t start;   // first page of the last read
  std::uint64_t stride;  // 0: only one read is known
  std::uint64_t ahead;   // first page that nobody has asked for yet
  std::uint32_t inode;
  std::uint32_t length;  // pages of the last read; 0: the record is unused
  std::uint32_t window;  // how many pages may be ahead
  std::uint32_t fits;    // reads that were where they were expected
  std::uint32_t reserved[6];
};
static_assert(sizeof(Stream) == 64);
inline constexpr std::uint32_t streams_max = 8;

// What a group remembers of its own reads. Written and read by its leader alone.
struct alignas(cache_line_bytes) Reader {
  Stream streams[streams_max];
  std::uint64_t last_key;     // of the page it used last: the next piece of it is no second use
  std::uint32_t next_stream;  // to be given away next
  std::uint32_t views;        // that it may hold beside those it holds; part of Shared::held_pages
  std::uint32_t tries;        // in a row that an outside call made vain (outside.hpp)
  std::uint32_t reserved[11];
};
static_assert(sizeof(Reader) == (streams_max + 1) * 64);

// For a group's list of ranges on their way to the storage (write_back.hpp). Not on the stack,
// which a GPU sets aside for each of its threads.
inline constexpr std::uint64_t work_bytes = 1856;

// Which frame a group reads just now without having pinned it (marks.hpp). A line of its own, so
// that a read writes to nothing that others write to.
struct alignas(cache_line_bytes) Mark {
  std::uint32_t frame;  // its number + 1; 0: none
  std::uint32_t reserved[15];
};
static_assert(sizeof(Mark) == 64);

// Storages that are told apart; more of them share counts.
inline constexpr std::uint32_t storages_max = 16;
// `device`: FileStatus::device of a file on it.
FERRY_DEVICE inline std::uint32_t storage_of(std::uint64_t device) {
  return static_cast<std::uint32_t>((device * 0x9e3779b97f4a7c15ULL) >> 60);
}
static_assert(storages_max == 1U << 4);

struct Shared {
  alignas(cache_line_bytes) std::uint64_t hand;  // of the clock; modulo the number of frames
  // The first free frame + 1 in the low frame_bits; what lies above grows with every change.
  alignas(cache_line_bytes) std::uint64_t free_frames;
  alignas(cache_line_bytes) std::uint64_t dirty_pages;  // of all files, as Inode::dirty_pages
  std::uint32_t held_pages;  // that views pin, or that groups may pin without asking
  std::uint32_t flush_hand;  // where the next background write-back looks
  // 0 free, 1 held: opening, closing. Its holder asks no storage and waits for nobody else: what
  // takes long is done to a record that is `busy`.
  alignas(cache_line_bytes) std::uint32_t open_lock;
  std::uint32_t stopping;  // 1: no cached write begins any more
  // Of flights that are claimed or under way: how many, how many pages they fill, and how many each
  // storage has.
  alignas(cache_line_bytes) std::uint32_t flights;
  std::uint32_t flying_pages;
  alignas(cache_line_bytes) std::uint32_t flights_of[storages_max];
};
static_assert(sizeof(Shared) == 384);

// Where everything lies, in bytes from the start of the cache.
struct Layout {
  Geometry geometry;
  std::uint32_t page_shift = 0;
  std::uint32_t bucket_mask = 0;
  std::uint32_t dirty_low = 0;  // more dirty pages than this are written in the background
  // And with more than this, writers wait for their own storage; nothing is read ahead, either,
  // that would make it more with the pages that flights fill. So a storage that hangs leaves the
  // others a quarter of the cache.
  std::uint32_t dirty_high = 0;
  std::uint64_t flights = 0;
  std::uint64_t counters = 0;
  std::uint64_t marks = 0;
  std::uint64_t readers = 0;
  std::uint64_t works = 0;
  std::uint64_t inodes = 0;
  std::uint64_t open_files = 0;
  std::uint64_t buckets = 0;
  std::uint64_t frames = 0;
  std::uint64_t pages = 0;
  std::uint64_t bytes = 0;
};

// `page_bytes` is a power of two within the limits above, `inodes` any.
inline Layout lay_out(Geometry geometry) {
  Layout layout;
  std::uint32_t inodes = 1;
  while (inodes < geometry.inodes)
    inodes *= 2;
  geometry.inodes = inodes;
  layout.geometry = geometry;
  while ((1U << layout.page_shift) < geometry.page_bytes)
    ++layout.page_shift;
  // Half full at most, so that a page is found in its first bucket nearly always.
  std::uint32_t buckets = 1;
  while (std::uint64_t{buckets} * Bucket::entries_max < 2 * std::uint64_t{geometry.frames})
    buckets *= 2;
  layout.bucket_mask = buckets - 1;
  layout.dirty_low = geometry.frames / 2;
  layout.dirty_high = geometry.frames - geometry.frames / 4;
  layout.flights = sizeof(Shared);
  layout.counters = layout.flights + geometry.flights * sizeof(Flight);
  layout.marks = layout.counters + geometry.groups * sizeof(Counters);
  layout.readers = layout.marks + geometry.groups * sizeof(Mark);
  layout.works = layout.readers + geometry.groups * sizeof(Reader);
  layout.inodes = layout.works + geometry.groups * work_bytes;
  layout.open_files = layout.inodes + geometry.inodes * sizeof(Inode);
  const std::uint64_t open_end = layout.open_files + geometry.inodes * sizeof(OpenFile);
  layout.buckets = (open_end + cache_line_bytes - 1) / cache_line_bytes * cache_line_bytes;
  layout.frames = layout.buckets + std::uint64_t{buckets} * sizeof(Bucket);
  const std::uint64_t end = layout.frames + geometry.frames * sizeof(Frame);
  constexpr std::uint64_t align = 4096;
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
// Four neighbouring pages belong to one bucket, so that they are entered under one lock and found
// on one line. Groups of four are spread by Fibonacci hashing.
inline constexpr unsigned bucket_group_bits = 2;
FERRY_DEVICE inline std::uint32_t hash_of(std::uint64_t key) {
  return static_cast<std::uint32_t>(((key >> bucket_group_bits) * 0x9e3779b97f4a7c15ULL) >> 32);
}
FERRY_DEVICE inline bool same_bucket(std::uint64_t one_key, std::uint64_t other_key) {
  return one_key >> bucket_group_bits == other_key >> bucket_group_bits;
}

struct View {
  unsigned char* base = nullptr;
  Layout layout;
  Switches switches;
  // Whoever gives frames away runs HostHooks::barrier_everywhere, so that marking one needs none.
  bool barriers_everywhere = false;
  // Whether a read that hits marks its frame (marks.hpp) instead of pinning it.
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
  FERRY_DEVICE Mark& mark(std::uint32_t group) const { return at<Mark>(layout.marks, group); }
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
  // That of a handle. There are as many as files can be open, rounded up to a power of two: handles
  // of other files differ in the bits that are looked at.
  FERRY_DEVICE OpenFile& open_file(std::int32_t handle) const {
    return open_file_at(static_cast<std::uint32_t>(handle));
  }
  FERRY_DEVICE OpenFile& open_file_at(std::uint32_t index) const {
    return at<OpenFile>(layout.open_files, index & (layout.geometry.inodes - 1));
  }
  FERRY_DEVICE Bucket& bucket(std::uint64_t index) const {
    return at<Bucket>(layout.buckets, index & layout.bucket_mask);
  }
  FERRY_DEVICE Frame& frame(std::uint32_t index) const { return at<Frame>(layout.frames, index); }
  FERRY_DEVICE unsigned char* page(std::uint32_t frame) const {
    return base + layout.pages + (std::uint64_t{frame} << layout.page_shift);
  }
  FERRY_DEVICE std::uint32_t page_bytes() const { return layout.geometry.page_bytes; }
  // As much of a file can be cached.
  FERRY_DEVICE std::uint64_t bytes_max() const { return pages_max << layout.page_shift; }
  FERRY_DEVICE std::uint64_t size_of(std::uint64_t bytes) const {
    return bytes < bytes_max() ? bytes : bytes_max();
  }
  // The pages that a range of bytes lies in, as far as they can be cached.
  FERRY_DEVICE Pages pages_of(std::uint64_t offset, std::uint64_t bytes) const {
    const Pages all;
    const std::uint64_t first = offset >> layout.page_shift;
    if (first >= all.end || bytes == 0) return Pages{0, 0};
    const std::uint64_t length = ((offset & (page_bytes() - 1)) + bytes - 1) >> layout.page_shift;
    return Pages{first, length < all.end - first ? first + length + 1 : all.end};
  }
};

// Makes an empty cache out of zeroed memory.
inline void prepare(const View& view) {
  const std::uint32_t frames = view.layout.geometry.frames;
  for (std::uint32_t i = 0; i < frames; ++i) {
    view.frame(i).state = State::taken;
    view.frame(i).key = i + 1 < frames ? i + 2 : 0;
  }
  view.shared().free_frames = frames > 0 ? 1 : 0;
  for (std::uint32_t i = 0; i < view.layout.geometry.inodes; ++i)
    view.inode(i).id = i;
}

}  // namespace ferry::device::cache
