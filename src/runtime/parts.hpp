// Shared by the runtimes of all kinds of devices.
#pragma once

#include <chrono>
#include <cstdint>

#include <ferry/runtime.hpp>

#include "backend/cpu/arena.hpp"
#include "runtime/tuning.hpp"
#include "server/server.hpp"
#include "storage/storage.hpp"

namespace ferry {

// Why a runtime refuses calls (ECHILD).
inline constexpr const char* not_of_a_child =
    "the runtime belongs to the parent of this process; make one in the child";

inline constexpr std::chrono::microseconds server_spin_default{100};
inline constexpr std::chrono::seconds shutdown_deadline_default{10};

// Runtime::allocate(), from this heap, which must outlive the buffer.
Buffer allocate_from(cpu::Heap& heap, std::uint64_t bytes, std::uint64_t alignment_bytes);

// Derived from the settings and the storage; the device fills in the rest.
RuntimeInfo describe_settings(const Tuning& tuning, const storage::Description& storage);

// Add up the counters of a runtime's parts. Thread-safe: each number is exact, but they may be read
// at slightly different times.
void add_up(RuntimeStatistics& sum, const device::GroupCounters& counters);
void add_up(RuntimeStatistics& sum, const device::cache::Counters& counters);
void add_up(RuntimeStatistics& sum, const server::Server& server);

}  // namespace ferry
