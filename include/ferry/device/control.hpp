// The control block: what lies at the start of every arena, and how both sides find their way in
// it. Offsets only, so that device and server may map the arena at different addresses.
//
// shared: both sides load and store it
//   | Control | LoopState, LoopDoorbell per loop | RingHead, slots per ring | AnswerCell[] |
//   | scratch per group | extents per shared cell | staging per group |
// local: the device's own
//   | RingTickets per ring and service | LoopState, LoopDoorbell, RingHead, slots per service |
//   | FilePosition[] | GroupState[] | GroupCounters[] | heap ... |
//
// On a device whose memory the host can address the two follow one another in one mapping. On a GPU
// the shared part lies in pinned memory of the host, where polling is cheap for the server and a
// store of the device crosses the bus without being waited for; the rest is the GPU's. Offsets are
// counted through both.
#pragma once

#include <cstddef>
#include <cstdint>

#include <ferry/device/platform.hpp>
#include <ferry/device/ring.hpp>

namespace ferry::device {

inline constexpr std::uint64_t control_magic = 0x31'79'72'72'65'66ULL;  // "ferry1"
inline constexpr std::uint32_t control_version = 2;

// Bytes of each group's scratch area: a path, a file status, or one vectored call's extents.
inline constexpr std::uint64_t scratch_bytes = 16 * 1024;
inline constexpr std::uint64_t path_bytes_max = 4096;  // including the terminating zero
inline constexpr std::uint32_t extents_max = scratch_bytes / sizeof(BufferExtent);
// Maximum extents of a request that is answered in a shared cell.
inline constexpr std::uint32_t shared_extents_max = 32;

// Numbers of each, chosen when the arena is made.
struct Geometry {
  std::uint32_t loops = 1;                   // server threads
  std::uint32_t rings = 1;                   // ring r is polled by loop r % loops
  std::uint32_t services = 0;                // device cores that serve calls, with a ring each
  std::uint32_t slots_per_ring = 256;        // a power of two
  std::uint32_t groups = 1;                  // device threads, or groups of lanes
  std::uint32_t cells_per_group = 64;        // at most 64
  std::uint32_t shared_cells = 0;            // unowned, for requests of the page cache
  std::uint32_t files = 1024;                // open files
  std::uint64_t staging_bytes = 256 * 1024;  // per group
  std::uint64_t arena_bytes = 0;             // everything, including this block
};

// The layout: offsets from the start of the arena, in bytes.
struct Control {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t reserved;
  Geometry geometry;
  std::uint64_t loop_states;
  std::uint64_t doorbells;
  std::uint64_t heads;
  std::uint64_t slots;
  std::uint64_t cells;
  std::uint64_t scratch;
  std::uint64_t extents;
  std::uint64_t staging;
  std::uint64_t local;  // first byte of the device's own part
  std::uint64_t tickets;
  std::uint64_t service_states;
  std::uint64_t service_doorbells;
  std::uint64_t service_heads;
  std::uint64_t service_slots;
  std::uint64_t service_cells;
  std::uint64_t positions;
  std::uint64_t groups;
  std::uint64_t counters;
  std::uint64_t heap;  // first byte that programs may use
};

// The position of an open file, shared by read() and write(). Device words only.
struct FilePosition {
  std::uint32_t lock;      // 0 free, 1 held, 2 held with a waiter (futex word on the CPU)
  std::uint32_t append;    // opened with O_APPEND
  std::uint64_t position;  // bytes; guarded by lock
  std::int32_t handle;     // the position's owner; a stale handle must not move it
  std::uint32_t reserved[3];
};
static_assert(sizeof(FilePosition) == 32);

inline constexpr std::uint32_t cells_per_group_max = 64;  // one bit each in a word

// A group's memory of its cells between programs. Only its leader uses it, and it is on other cache
// lines than the cells, which travel between device and server.
struct alignas(cache_line_bytes) GroupState {
  // Last sequence number issued, by cell: for those that the server answers in, and for those of
  // services.
  std::uint32_t issued[cells_per_group_max];
  std::uint32_t issued_to_services[cells_per_group_max];
  std::uint64_t retired;  // cells abandoned on a dead server: never used again
  // Cells of requests not waited for yet, and which of them a service answers. A program that ends
  // without drain() leaves such cells to the next. Every lane of a group reads these two when a
  // program begins, so they are atomics (relaxed: only the leader stores them, and only its view
  // counts).
  std::uint64_t in_flight;
  std::uint64_t at_service;
};
static_assert(sizeof(GroupState) == in_lines(576));

// A group's counters of its own calls. Written only by the group's leader (add_to), read by anyone
// (read_counter).
struct alignas(cache_line_bytes) GroupCounters {
  std::uint64_t calls;
  std::uint64_t batches;       // doorbell checks: one per submission of any number of requests
  std::uint64_t doorbells;     // submissions that had to wake the server
  std::uint64_t parks;         // waits longer than the spinning
  std::uint64_t staged_calls;  // transfers with a buffer outside the arena
  std::uint64_t staged_bytes;
  std::uint64_t served;      // cached calls that this group executed for others
  std::uint64_t taken_back;  // cached calls of this group that nobody else began in time
};
static_assert(sizeof(GroupCounters) == in_lines(64));

FERRY_DEVICE inline std::uint64_t read_counter(const std::uint64_t& counter) {
  return SystemRef<std::uint64_t>(const_cast<std::uint64_t&>(counter)).load(relaxed);
}
// One writer, so no read-modify-write is needed.
FERRY_DEVICE inline void add_to(std::uint64_t& counter, std::uint64_t amount) {
  SystemRef<std::uint64_t>(counter).store(read_counter(counter) + amount, relaxed);
}

// A possible layout; `heap` is also the size of everything before it.
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
  const auto place_ring_parts = [&](std::uint64_t loops, std::uint64_t rings, std::uint64_t& states,
                                    std::uint64_t& doorbells, std::uint64_t& heads,
                                    std::uint64_t& slots) {
    states = place(loops, sizeof(LoopState), 64);
    doorbells = place(loops, sizeof(LoopDoorbell), 64);
    heads = place(rings, sizeof(RingHead), 64);
    slots = place(rings * geometry.slots_per_ring, sizeof(Request), 64);
  };
  place_ring_parts(geometry.loops, geometry.rings, control.loop_states, control.doorbells,
                   control.heads, control.slots);
  control.cells =
      place(std::uint64_t{geometry.groups} * geometry.cells_per_group + geometry.shared_cells,
            sizeof(AnswerCell), 64);
  control.scratch = place(geometry.groups, scratch_bytes, 4096);
  control.extents = place(std::uint64_t{geometry.shared_cells} * shared_extents_max,
                          sizeof(BufferExtent), cache_line_bytes);
  control.staging = place(geometry.groups, geometry.staging_bytes, 4096);
  control.local = place(0, 0, 4096);
  control.tickets =
      place(std::uint64_t{geometry.rings} + geometry.services, sizeof(RingTickets), 64);
  place_ring_parts(geometry.services, geometry.services, control.service_states,
                   control.service_doorbells, control.service_heads, control.service_slots);
  control.service_cells =
      place(geometry.services > 0 ? std::uint64_t{geometry.groups} * geometry.cells_per_group : 0,
            sizeof(AnswerCell), 64);
  control.positions = place(geometry.files, sizeof(FilePosition), 64);
  control.groups = place(geometry.groups, sizeof(GroupState), 64);
  control.counters = place(geometry.groups, sizeof(GroupCounters), 64);
  control.heap = round_up(next, 4096);
  return control;
}

// An arena as one side sees it: a base address and a trusted copy of the layout. The server makes
// its copy with the arena and never reads the shared one again.
struct ArenaView {
  unsigned char* base = nullptr;   // of the shared part
  unsigned char* local = nullptr;  // where offset 0 would be if the device's own part followed
                                   // nothing: `base` itself, or an address on a GPU
  Control layout{};

  FERRY_DEVICE unsigned char* address_of(std::uint64_t offset) const {
    return (offset < layout.local ? base : local) + offset;
  }
  template <class T>
  FERRY_DEVICE T* shared(std::uint64_t offset, std::uint64_t index = 0) const {
    return reinterpret_cast<T*>(base + offset) + index;
  }
  template <class T>
  FERRY_DEVICE T* own(std::uint64_t offset, std::uint64_t index = 0) const {
    return reinterpret_cast<T*>(local + offset) + index;
  }
  // The server's loops, followed by the device's services. Rings likewise.
  FERRY_DEVICE LoopState& loop_state(std::uint32_t loop) const {
    const std::uint32_t loops = layout.geometry.loops;
    return loop < loops ? *shared<LoopState>(layout.loop_states, loop)
                        : *own<LoopState>(layout.service_states, loop - loops);
  }
  FERRY_DEVICE LoopDoorbell& doorbell(std::uint32_t loop) const {
    const std::uint32_t loops = layout.geometry.loops;
    return loop < loops ? *shared<LoopDoorbell>(layout.doorbells, loop)
                        : *own<LoopDoorbell>(layout.service_doorbells, loop - loops);
  }
  // Cells that the server answers in, followed by those of services, which are the device's own:
  // services' answers do not cross the bus.
  FERRY_DEVICE AnswerCell& cell(std::uint32_t index) const {
    return index < cell_count() ? *shared<AnswerCell>(layout.cells, index)
                                : *own<AnswerCell>(layout.service_cells, index - cell_count());
  }
  FERRY_DEVICE bool is_service_cell(std::uint32_t index) const {
    const Geometry& geometry = layout.geometry;
    return geometry.services > 0 && index >= cell_count() &&
           index - cell_count() < geometry.groups * geometry.cells_per_group;
  }
  FERRY_DEVICE std::uint32_t cell_count() const {
    return layout.geometry.groups * layout.geometry.cells_per_group + layout.geometry.shared_cells;
  }
  FERRY_DEVICE std::uint32_t shared_cell(std::uint32_t index) const {
    return layout.geometry.groups * layout.geometry.cells_per_group + index;
  }
  // For the request that is answered in shared cell `index`.
  FERRY_DEVICE BufferExtent* shared_extents(std::uint32_t index) const {
    return shared<BufferExtent>(layout.extents, std::uint64_t{index} * shared_extents_max);
  }
  FERRY_DEVICE FilePosition& position(std::uint32_t file_index) const {
    return *own<FilePosition>(layout.positions, file_index);
  }
  FERRY_DEVICE GroupState& group(std::uint32_t index) const {
    return *own<GroupState>(layout.groups, index);
  }
  FERRY_DEVICE GroupCounters& counters(std::uint32_t group) const {
    return *own<GroupCounters>(layout.counters, group);
  }
  FERRY_DEVICE unsigned char* scratch(std::uint32_t group) const {
    return base + layout.scratch + group * scratch_bytes;
  }
  FERRY_DEVICE unsigned char* staging(std::uint32_t group) const {
    return base + layout.staging + group * layout.geometry.staging_bytes;
  }
  FERRY_DEVICE RequestRing ring(std::uint32_t index) const {
    const Geometry& geometry = layout.geometry;
    std::uint32_t shift = 0;
    while ((1U << shift) < geometry.slots_per_ring)
      ++shift;
    RingTickets* tickets = own<RingTickets>(layout.tickets, index);
    if (index < geometry.rings) {
      const std::uint64_t first = std::uint64_t{index} * geometry.slots_per_ring;
      return RequestRing{tickets, shared<RingHead>(layout.heads, index),
                         shared<Request>(layout.slots, first), geometry.slots_per_ring, shift};
    }
    const std::uint32_t service = index - geometry.rings;
    const std::uint64_t first = std::uint64_t{service} * geometry.slots_per_ring;
    return RequestRing{tickets, own<RingHead>(layout.service_heads, service),
                       own<Request>(layout.service_slots, first), geometry.slots_per_ring, shift};
  }
  // Whether a request may name these bytes: scratch, extents and staging, or the heap, so that no
  // transfer writes to rings and cells.
  FERRY_DEVICE bool allows(std::uint64_t offset, std::uint64_t bytes) const {
    return within(offset, bytes, layout.scratch, layout.local) ||
           within(offset, bytes, layout.heap, layout.geometry.arena_bytes);
  }
  // Likewise for data that the server itself loads or stores: paths, statuses, lists of extents.
  FERRY_DEVICE bool allows_to_server(std::uint64_t offset, std::uint64_t bytes) const {
    return (offset < layout.local || local == base) && allows(offset, bytes);
  }
  // Whether [pointer, pointer + bytes) is inside the arena.
  FERRY_DEVICE bool contains(const void* pointer, std::uint64_t bytes) const {
    const std::uint64_t offset = offset_of(pointer);
    const std::uint64_t end =
        offset < layout.local && local != base ? layout.local : layout.geometry.arena_bytes;
    return within(offset, bytes, 0, end);
  }
  // For a pointer into either part.
  FERRY_DEVICE std::uint64_t offset_of(const void* pointer) const {
    const auto address = reinterpret_cast<std::uintptr_t>(pointer);
    const std::uint64_t from_base = address - reinterpret_cast<std::uintptr_t>(base);
    return from_base < layout.local ? from_base : address - reinterpret_cast<std::uintptr_t>(local);
  }

 private:
  FERRY_DEVICE static bool within(std::uint64_t offset, std::uint64_t bytes, std::uint64_t begin,
                                  std::uint64_t end) {
    return offset >= begin && offset <= end && bytes <= end - offset;
  }
};

FERRY_DEVICE inline Request transfer_request(const ArenaView& arena, Opcode opcode, int file,
                                             const void* buffer, std::uint64_t length,
                                             std::int64_t offset, std::uint8_t flags = 0) {
  Request request{};
  request.opcode = opcode;
  request.flags = flags;
  request.file = file;
  request.offset = offset;
  request.buffer = arena.offset_of(buffer);
  request.length = length;
  return request;
}

// File handles: the lowest bits are a slot of the server's table, as few as needed, the others the
// slot's generation when the file was opened, which reveals stale handles.
inline constexpr std::uint32_t open_files_max = 1U << 16;
inline constexpr std::uint32_t handle_bits = 31;  // a handle is positive
// The bits of a handle for one of `files` slots, or none.
FERRY_DEVICE constexpr std::uint32_t handle_index_mask(std::uint32_t files) {
  std::uint32_t mask = files - 1;
  for (std::uint32_t shift = 1; shift < 32; shift *= 2)
    mask |= mask >> shift;
  return mask;
}
FERRY_DEVICE constexpr std::uint32_t handle_index(std::int32_t handle, std::uint32_t files) {
  return static_cast<std::uint32_t>(handle) & handle_index_mask(files);
}

// The result of stat. Fixed layout: the server writes it into the arena.
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
  std::uint32_t generated;    // 1: generated while it is read, as in /proc; the size is meaningless
  std::uint64_t version;      // equal versions have equal contents; 0: unknown
};
static_assert(sizeof(FileStatus) == 72);
FERRY_DEVICE inline bool is_regular(const FileStatus& status) {
  constexpr std::uint32_t type_mask = 0170000;
  constexpr std::uint32_t regular = 0100000;
  return (status.mode & type_mask) == regular;
}

}  // namespace ferry::device
