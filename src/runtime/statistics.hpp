// Adds up what the parts of a runtime have counted. Thread-safe: each number is exact, they may be
// read at slightly different times.
#pragma once

#include <ferry/runtime.hpp>

#include "server/server.hpp"

namespace ferry {

void add_up(RuntimeStatistics& sum, const device::GroupCounters& counters);
void add_up(RuntimeStatistics& sum, const device::cache::Counters& counters);
void add_up(RuntimeStatistics& sum, const server::Server& server);

}  // namespace ferry
