// What a simulated runtime finds around it, in the place of a machine: its storage, and no profile.
#pragma once

#include "simulator/simulated_storage.hpp"

namespace ferry::simulator {

// Of the storage of the next runtime, which sets `current_storage`.
inline DiskSettings next_disks{};
inline SimulatedStorage* current_storage = nullptr;

}  // namespace ferry::simulator
