#include <cstdint>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include <ferry/device/control.hpp>

#include "support/depth.hpp"

namespace ferry::device {
namespace {

struct Region {
  const char* name;
  std::uint64_t begin;
  std::uint64_t end;
  std::uint64_t alignment;
};

std::vector<Region> regions(const Control& control) {
  const Geometry& g = control.geometry;
  const auto region = [](const char* name, std::uint64_t at, std::uint64_t count,
                         std::uint64_t bytes, std::uint64_t alignment) {
    return Region{name, at, at + count * bytes, alignment};
  };
  const std::uint64_t all_slots = std::uint64_t{g.rings} * g.slots_per_ring;
  const std::uint64_t all_cells = std::uint64_t{g.groups} * g.cells_per_group + g.shared_cells;
  return {
      region("control", 0, 1, sizeof(Control), 64),
      region("loop states", control.loop_states, g.loops, sizeof(LoopState), 64),
      region("doorbells", control.doorbells, g.loops, sizeof(LoopDoorbell), 64),
      region("heads", control.heads, g.rings, sizeof(RingHead), 64),
      region("slots", control.slots, all_slots, sizeof(Request), 64),
      region("cells", control.cells, all_cells, sizeof(AnswerCell), 64),
      region("scratch", control.scratch, g.groups, scratch_bytes, 4096),
      region("extents", control.extents, std::uint64_t{g.shared_cells} * shared_extents_max,
             sizeof(BufferExtent), 64),
      region("staging", control.staging, g.groups, g.staging_bytes, 4096),
      region("local", control.local, 0, 1, 4096),
      region("tickets", control.tickets, std::uint64_t{g.rings} + g.services, sizeof(RingTickets),
             64),
      region("service states", control.service_states, g.services, sizeof(LoopState), 64),
      region("service doorbells", control.service_doorbells, g.services, sizeof(LoopDoorbell), 64),
      region("service heads", control.service_heads, g.services, sizeof(RingHead), 64),
      region("service slots", control.service_slots, std::uint64_t{g.services} * g.slots_per_ring,
             sizeof(Request), 64),
      region("service cells", control.service_cells,
             g.services > 0 ? std::uint64_t{g.groups} * g.cells_per_group : 0, sizeof(AnswerCell),
             64),
      region("positions", control.positions, g.files, sizeof(FilePosition), 64),
      region("groups", control.groups, g.groups, sizeof(GroupState), 64),
      region("counters", control.counters, g.groups, sizeof(GroupCounters), 64),
      region("heap", control.heap, 1, 0, 4096)};
}

void expect_apart_and_aligned(const Geometry& geometry) {
  const auto all = regions(lay_out(geometry));
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i].begin % all[i].alignment, 0U) << all[i].name;
    if (i > 0) {
      EXPECT_GE(all[i].begin, all[i - 1].end) << all[i - 1].name << " / " << all[i].name;
    }
  }
}

TEST(Layout, KeepsRegionsApartAndAligned) {
  expect_apart_and_aligned(Geometry{});
  test::Random random;
  for (std::uint64_t i = 0; i < test::scaled(20'000); ++i) {
    Geometry geometry;
    geometry.loops = static_cast<std::uint32_t>(random.between(1, 64));
    geometry.rings = static_cast<std::uint32_t>(random.between(1, 128));
    geometry.slots_per_ring = 2U << random.below(12);
    geometry.groups = static_cast<std::uint32_t>(random.between(1, 5000));
    geometry.cells_per_group = static_cast<std::uint32_t>(random.between(1, 64));
    geometry.services = static_cast<std::uint32_t>(random.below(9));
    geometry.shared_cells = static_cast<std::uint32_t>(random.below(200));
    geometry.files = static_cast<std::uint32_t>(random.between(1, 65536));
    geometry.staging_bytes = random.between(1, 8 << 20);
    expect_apart_and_aligned(geometry);
    if (HasFailure()) FAIL() << "groups " << geometry.groups << ", rings " << geometry.rings;
  }
}

TEST(Layout, DoesNotOverflowWithTheLargestCounts) {
  const Geometry geometry{
      .rings = 1U << 12, .slots_per_ring = 1U << 21, .groups = 1U << 20, .staging_bytes = 64 << 20};
  expect_apart_and_aligned(geometry);
  EXPECT_GT(lay_out(geometry).heap, std::uint64_t{64} << 40);
}

TEST(Layout, RemembersWhatItWasMadeFor) {
  const Control control = lay_out({.groups = 7, .arena_bytes = 12345});
  EXPECT_EQ(control.magic, control_magic);
  EXPECT_EQ(control.version, control_version);
  EXPECT_EQ(control.geometry.groups, 7U);
  EXPECT_EQ(control.geometry.arena_bytes, 12345U);
}

class View : public testing::Test {
 protected:
  View() {
    Geometry geometry{.loops = 2,
                      .rings = 3,
                      .slots_per_ring = 8,
                      .groups = 5,
                      .cells_per_group = 4,
                      .files = 9,
                      .staging_bytes = 8192};
    geometry.arena_bytes = lay_out(geometry).heap + 10'000;
    view.layout = lay_out(geometry);
    // Nothing here looks into the memory.
    view.base = reinterpret_cast<unsigned char*>(std::uintptr_t{1} << 32);
    view.local = view.base;
  }
  std::uint64_t offset(const void* pointer) const { return view.offset_of(pointer); }
  ArenaView view;
};

TEST_F(View, FindsEachThingInItsRegion) {
  EXPECT_EQ(offset(&view.loop_state(1)), view.layout.loop_states + cache_line_bytes);
  EXPECT_EQ(offset(&view.doorbell(1)), view.layout.doorbells + cache_line_bytes);
  EXPECT_EQ(view.cell_count(), 20U);
  EXPECT_EQ(offset(&view.cell(19)), view.layout.cells + std::uint64_t{19} * cache_line_bytes);
  EXPECT_EQ(offset(&view.position(8)),
            view.layout.positions + std::uint64_t{8} * sizeof(FilePosition));
  EXPECT_EQ(offset(&view.group(4)), view.layout.groups + 4 * sizeof(GroupState));
  EXPECT_EQ(offset(&view.counters(4)), view.layout.counters + std::uint64_t{4} * cache_line_bytes);
  EXPECT_EQ(offset(view.scratch(4)), view.layout.scratch + 4 * scratch_bytes);
  EXPECT_EQ(offset(view.staging(4)), view.layout.staging + std::uint64_t{4} * 8192);
}

TEST_F(View, FindsTheCellsOfServicesInTheDevicesOwnPart) {
  EXPECT_FALSE(view.is_service_cell(20)) << "there is no service";
  view.layout.geometry.services = 1;
  view.layout = lay_out(view.layout.geometry);
  EXPECT_FALSE(view.is_service_cell(19));
  EXPECT_TRUE(view.is_service_cell(20));
  EXPECT_TRUE(view.is_service_cell(39));
  EXPECT_FALSE(view.is_service_cell(40));
  EXPECT_FALSE(view.is_service_cell(~0U));
  EXPECT_EQ(offset(&view.cell(20)), view.layout.service_cells);
  EXPECT_EQ(offset(&view.cell(39)),
            view.layout.service_cells + std::uint64_t{19} * cache_line_bytes);
  EXPECT_GE(view.layout.service_cells, view.layout.local);
}

TEST_F(View, GivesEachRingItsOwnSlots) {
  for (std::uint32_t index = 0; index < 3; ++index) {
    const RequestRing ring = view.ring(index);
    EXPECT_EQ(ring.slot_count, 8U);
    EXPECT_EQ(1U << ring.slot_shift, 8U);
    EXPECT_EQ(offset(ring.tickets), view.layout.tickets + std::uint64_t{index} * cache_line_bytes);
    EXPECT_EQ(offset(ring.head), view.layout.heads + std::uint64_t{index} * cache_line_bytes);
    EXPECT_EQ(offset(ring.slots), view.layout.slots + std::uint64_t{index} * 8 * cache_line_bytes);
    EXPECT_LE(offset(&ring.slot(7)) + cache_line_bytes, view.layout.cells);
  }
}

TEST_F(View, ContainsWhatLiesInside) {
  const std::uint64_t size = view.layout.geometry.arena_bytes;
  EXPECT_TRUE(view.contains(view.base, 0));
  EXPECT_TRUE(view.contains(view.base, size));
  EXPECT_TRUE(view.contains(view.base + size - 1, 1));
  EXPECT_TRUE(view.contains(view.base + size, 0));
}

TEST_F(View, ContainsNothingThatReachesOut) {
  const std::uint64_t size = view.layout.geometry.arena_bytes;
  constexpr auto most = std::numeric_limits<std::uint64_t>::max();
  EXPECT_FALSE(view.contains(view.base, size + 1));
  EXPECT_FALSE(view.contains(view.base + size - 1, 2));
  EXPECT_FALSE(view.contains(view.base + size, 1));
  EXPECT_FALSE(view.contains(view.base + size + 1, 0));
  EXPECT_FALSE(view.contains(view.base - 1, 0));
  EXPECT_FALSE(view.contains(view.base - 1, 1));
  EXPECT_FALSE(view.contains(nullptr, 0));
  EXPECT_FALSE(view.contains(nullptr, most));
  // Lengths that wrap around to something small.
  EXPECT_FALSE(view.contains(view.base, most));
  EXPECT_FALSE(view.contains(view.base + 16, most - 15));
  EXPECT_FALSE(view.contains(view.base + size, most));
  EXPECT_FALSE(view.contains(view.base - 4096, most - 100));
  EXPECT_FALSE(view.contains(reinterpret_cast<const void*>(most), 1));
  EXPECT_FALSE(view.contains(reinterpret_cast<const void*>(most), most));
}

TEST(Handles, IndexIsInTheLowestBitsWhateverTheSign) {
  for (const std::uint32_t files : {40'000U, 65'536U}) {
    EXPECT_EQ(handle_index(0x0001'0000, files), 0U);
    EXPECT_EQ(handle_index(0x7fff'ffff, files), 0xffffU);
    EXPECT_EQ(handle_index(-1, files), 0xffffU);
    EXPECT_EQ(handle_index(std::numeric_limits<std::int32_t>::min(), files), 0U);
  }
  EXPECT_EQ(handle_index(0x7fff'ffff, 1), 0U);
  EXPECT_EQ(handle_index(0x7fff'ffff, 2), 1U);
  EXPECT_EQ(handle_index(0x7fff'ffff, 5), 7U);
  EXPECT_EQ(handle_index(0x7fff'fff9, 8), 1U);
}

TEST(Counters, AddUp) {
  GroupCounters counters{};
  add_to(counters.calls, 3);
  add_to(counters.calls, 4);
  EXPECT_EQ(read_counter(counters.calls), 7U);
  EXPECT_EQ(read_counter(counters.batches), 0U);
}

}  // namespace
}  // namespace ferry::device
