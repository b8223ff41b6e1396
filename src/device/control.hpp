// The control block: what lies at the start of every arena, and how both sides find their way in
// it. Offsets only, so that device and server may map the arena at different addresses.
//
//   | Control | LoopState, LoopDoorbell per loop and service |
//   | RingTickets, RingHead, slots per ring and service |
//   | Cell[] | FilePosition[] | GroupState[] | GroupCounters[] |
//   | scratch and staging per group | heap ... |
#pragma once

#include <cstddef>
#include <cstdint>

#include <ferry/device/platform.hpp>
#include <ferry/device/ring.hpp>

namespace ferry::device {

inline constexpr std::uint64_t control_magic = 0x31'79'72'72'65'66ULL;  // "ferry1"
inline constexpr std::uint32_t control_version = 1;

// Bytes of each group's scratch area: a path, a file status, or the extents of one vectored call.
inline constexpr std::uint64_t scratch_bytes = 16 * 1024;
inline constexpr std::uint64_t path_bytes_max = 4096;  // the terminating zero included
inline constexpr std::uint32_t extents_max = scratch_bytes / sizeof(Extent);

// How many of each there are. Chosen once, when the arena is made.
struct Geometry {
  std::uint32_t loops = 1;                   // server threads
  std::uint32_t rings = 1;                   // ring r is polled by loop r % loops
  std::uint32_t services = 0;                // device cores that serve calls; a ring each
  std::uint32_t slots_per_ring = 256;        // a power of two
  std::uint32_t groups = 1;                  // device threads, or groups of lanes
  std::uint32_t cells_per_group = 64;        // at most 64
  std::uint32_t shared_cells = 0;            // of nobody: for requests of the page cache
  std::uint32_t files = 1024;                // open files
  std::uint64_t staging_bytes = 256 * 1024;  // per group
  std::uint64_t arena_bytes = 0;             // everything, this block included
};

// Where everything lies: offsets from the start of the arena, in bytes.
struct Control {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t reserved;
  Geometry geometry;
  std::uint64_t loop_states;
  std::uint64_t doorbells;
  std::uint64_t tickets;
  std::uint64_t heads;
  std::uint64_t slots;
  std::uint64_t cells;
  std::uint64_t positions;
  std::uint64_t groups;
  std::uint64_t counters;
  std::uint64_t scratch;
  std::uint64_t staging;
  std::uint64_t heap;  // first byte that programs may use
};

// The position of an open file: what read() and write() share. Device words only.
struct FilePosition {
  std::uint32_t lock;      // 0 free, 1 held, 2 held and somebody waits (futex word on the CPU)
  std::uint32_t append;    // opened with O_APPEND
  std::uint64_t position;  // bytes; guarded by lock
  std::int32_t handle;     // whose position this is; a handle kept after close() must not move it
  std::uint32_t reserved[3];
};
static_assert(sizeof(FilePosition) == 32);

inline constexpr std::uint32_t cells_per_group_max = 64;  // one bit each in a word

// What a group remembers of its cells from one program to the next. Written and read by its leader
// alone, and kept off the cells' lines, which travel between device and server.
struct alignas(cache_line_bytes) GroupState {
  std::uint32_t issued[cells_per_group_max];  // last sequence number handed out, by cell
  std::uint64_t retired;                      // cells given up on a dead server: never used again
};
static_assert(sizeof(GroupState) == 320);

// What a group counts about its own calls. Written by the group's leader alone (add_to), read by
// anyone (read_counter).
struct alignas(cache_line_bytes) GroupCounters {
  std::uint64_t calls;
  std::uint64_t batches;       // doorbell checks: one per submission, however many requests
  std::uint64_t doorbells;     // submissions that had to wake the server
  std::uint64_t parks;         // waits that outlasted the spinning
  std::uint64_t staged_calls;  // transfers with a buffer outside the arena
  std::uint64_t staged_bytes;
  std::uint64_t served;  // cached calls that this group executed for others
  std::uint64_t reserved;
};
static_assert(sizeof(GroupCounters) == 64);

FERRY_DEVICE inline std::uint64_t read_counter(const std::uint64_t& counter) {
  return SystemRef<std::uint64_t>(const_cast<std::uint64_t&>(counter)).load(relaxed);
}
// One writer, so no read-modify-write is needed.
FERRY_DEVICE inline void add_to(std::uint64_t& counter, std::uint64_t amount) {
  SystemRef<std::uint64_t>(counter).store(read_counter(counter) + amount, relaxed);
}

// Where things would lie; `heap` is also the size of everything before it.
inline Control lay_out(const Geometry& geometry) {
  constexpr auto round_up = [](std::uint64_t value, std::uint64_t step) {
    return (value + step - 1) / step * step;
  };
  Control control{};
  control.magic = control_magic;
  control.version = control_version;
  control.geometry = geometry;
  std::uint64_t next = round_up(sizeof(Control), cache_line_bytes);
  const auto place = [&](std::uint64_t count, std::uint64_t bytes, std::uint64_t align) {
    const std::uint64_t at = round_up(next, align);
    next = at + count * bytes;
    return at;
  };
  // The services' come after the server's: of loop states and doorbells from index `loops` up, of
  // rings from `rings` up.
  const std::uint64_t loops = std::uint64_t{geometry.loops} + geometry.services;
  const std::uint64_t rings = std::uint64_t{geometry.rings} + geometry.services;
  control.loop_states = place(loops, sizeof(LoopState), 64);
  control.doorbells = place(loops, sizeof(LoopDoorbell), 64);
  control.tickets = place(rings, sizeof(RingTickets), 64);
  control.heads = place(rings, sizeof(RingHead), 64);
  control.slots = place(rings * geometry.slots_per_ring, sizeof(Request), 64);
  control.cells =
      place(std::uint64_t{geometry.groups} * geometry.cells_per_group + geometry.shared_cells,
            sizeof(Cell), 64);
  control.positions = place(geometry.files, sizeof(FilePosition), 64);
  control.groups = place(geometry.groups, sizeof(GroupState), 64);
  control.counters = place(geometry.groups, sizeof(GroupCounters), 64);
  control.scratch = place(geometry.groups, scratch_bytes, 4096);
  control.staging = place(geometry.groups, geometry.staging_bytes, 4096);
  control.heap = round_up(next, 4096);
  return control;
}

// An arena as one side sees it: a base address and a trusted copy of the layout. The server builds
// its copy when the arena is made and never reads the shared one again.
struct ArenaView {
  unsigned char* base = nullptr;
  Control layout{};

  template <class T>
  FERRY_DEVICE T* at(std::uint64_t offset, std::uint64_t index = 0) const {
    return reinterpret_cast<T*>(base + offset) + index;
  }
  FERRY_DEVICE LoopState& loop_state(std::uint32_t loop) const {
    return *at<LoopState>(layout.loop_states, loop);
  }
  FERRY_DEVICE LoopDoorbell& doorbell(std::uint32_t loop) const {
    return *at<LoopDoorbell>(layout.doorbells, loop);
  }
  FERRY_DEVICE Cell& cell(std::uint32_t index) const { return *at<Cell>(layout.cells, index); }
  FERRY_DEVICE std::uint32_t cell_count() const {
    return layout.geometry.groups * layout.geometry.cells_per_group + layout.geometry.shared_cells;
  }
  FERRY_DEVICE std::uint32_t shared_cell(std::uint32_t index) const {
    return layout.geometry.groups * layout.geometry.cells_per_group + index;
  }
  FERRY_DEVICE FilePosition& position(std::uint32_t file_index) const {
    return *at<FilePosition>(layout.positions, file_index);
  }
  FERRY_DEVICE GroupState& group(std::uint32_t index) const {
    return *at<GroupState>(layout.groups, index);
  }
  FERRY_DEVICE GroupCounters& counters(std::uint32_t group) const {
    return *at<GroupCounters>(layout.counters, group);
  }
  FERRY_DEVICE unsigned char* scratch(std::uint32_t group) const {
    return base + layout.scratch + group * scratch_bytes;
  }
  FERRY_DEVICE unsigned char* staging(std::uint32_t group) const {
    return base + layout.staging + group * layout.geometry.staging_bytes;
  }
  FERRY_DEVICE RequestRing ring(std::uint32_t index) const {
    std::uint32_t shift = 0;
    while ((1U << shift) < layout.geometry.slots_per_ring)
      ++shift;
    return RequestRing{
        at<RingTickets>(layout.tickets, index), at<RingHead>(layout.heads, index),
        at<Request>(layout.slots, std::uint64_t{index} * layout.geometry.slots_per_ring),
        layout.geometry.slots_per_ring, shift};
  }
  // Whether a request may name these bytes: inside the arena and behind the control block, so that
  // no transfer writes to rings and cells.
  FERRY_DEVICE bool allows(std::uint64_t offset, std::uint64_t bytes) const {
    const std::uint64_t size = layout.geometry.arena_bytes;
    return offset >= layout.scratch && offset <= size && bytes <= size - offset;
  }
  // Whether [pointer, pointer + bytes) lies inside the arena.
  FERRY_DEVICE bool contains(const void* pointer, std::uint64_t bytes) const {
    const auto address = reinterpret_cast<std::uintptr_t>(pointer);
    const auto start = reinterpret_cast<std::uintptr_t>(base);
    if (address < start) return false;
    const std::uint64_t offset = address - start;
    return offset <= layout.geometry.arena_bytes && bytes <= layout.geometry.arena_bytes - offset;
  }
  FERRY_DEVICE std::uint64_t offset_of(const void* pointer) const {
    return static_cast<std::uint64_t>(static_cast<const unsigned char*>(pointer) - base);
  }
};

// File handles: a slot in the server's table and the generation that slot was in when the file
// was opened, so that a handle kept after close() is recognised.
inline constexpr std::uint32_t handle_index_bits = 16;
FERRY_DEVICE inline std::uint32_t handle_index(std::int32_t handle) {
  return static_cast<std::uint32_t>(handle) & ((1U << handle_index_bits) - 1);
}

// What stat tells. Fixed layout: the server writes it into the arena.
struct FileStatus {
  std::uint64_t size_bytes;
  std::uint64_t allocated_bytes;
  std::uint64_t inode;
  std::uint64_t device;
  std::int64_t modified_ns;  // since 1970
  std::uint32_t mode;        // type and permission bits, as in struct stat
  std::uint32_t links;
  std::uint32_t owner;
  std::uint32_t group;
  std::uint32_t block_bytes;  // preferred transfer size
  std::uint32_t reserved;
  std::uint64_t version;  // differs from an earlier one if the contents do; 0: unknown
};
static_assert(sizeof(FileStatus) == 72);

}  // namespace ferry::device
