// Memory of one rank that the other ranks of its node map: an unnamed file, so that nothing remains
// however the processes end.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ferry::collective {

// What others need to map a segment. Sent as is.
struct SegmentTicket {
  std::int64_t process = 0;
  std::int64_t descriptor = -1;
  std::uint64_t token = 0;  // identifies this segment's file
};

// The token lies here in the segment; its users leave these 8 bytes alone.
inline constexpr std::size_t segment_token_offset = 128;

// Returns zeroed memory of this process, which others map while `descriptor` is open. If that
// cannot be shared, `descriptor` is -1. Null without memory.
std::byte* make_segment(std::size_t bytes, bool shared, int& descriptor);
SegmentTicket ticket_of(std::byte* memory, int descriptor);
// Null if the process is invisible (another container), or the number belongs to another one.
std::byte* map_segment(const SegmentTicket& ticket, std::size_t bytes);
void unmap_segment(std::byte* memory, std::size_t bytes);

}  // namespace ferry::collective
