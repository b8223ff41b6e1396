// A runtime with several device threads on files of two disks, and what happens to them.
#pragma once

namespace ferry::simulator {

// Everything else follows from the run's seed.
void run_clients();

}  // namespace ferry::simulator
