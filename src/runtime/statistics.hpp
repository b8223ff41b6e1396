// Adds up the counters of a runtime's parts. Thread-safe: each number is exact, but they may be
// read at slightly different times.
#pragma once

#include <ferry/runtime.hpp>

#include "server/server.hpp"

namespace ferry {

void add_up(RuntimeStatistics& sum, const device::GroupCounters& counters);
void add_up(RuntimeStatistics& sum, const device::cache::Counters& counters);
void add_up(RuntimeStatistics& sum, const server::Server& server);

}  // namespace ferry
