// Tries out, on this machine, from which size copies are faster past the core's caches.
#pragma once

#include <cstdint>
#include <span>

#include <ferry/device/copy.hpp>

namespace ferry {

// What the trials need: more pages than most caches hold, and a buffer of the largest call.
inline constexpr std::uint64_t trial_pages_bytes = std::uint64_t{64} << 20;
inline constexpr std::uint64_t trial_buffer_bytes = std::uint64_t{16} << 20;

// Copies between a program's buffer and pages, as calls do; takes 6 to 20 ms on the calling thread.
// All bytes given are zero and in huge pages where there are any; they stay zero.
device::StreamingCopies try_streaming_copies(std::span<unsigned char> pages,
                                             std::span<unsigned char> buffer);

}  // namespace ferry
