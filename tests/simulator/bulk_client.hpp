// Bulk transfers of a thread beside the device's clients, on their files.
#pragma once

#include "simulator/world.hpp"

namespace ferry::simulator {

// Uses the disks of a runtime, and has ended with them when it returns.
void run_bulk_client(World& world, SimulatedStorage& both, Choices choices);

}  // namespace ferry::simulator
