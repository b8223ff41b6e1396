// Collective transfers through writers, for the methods aggregate and serial.
#pragma once

#include "collective/plan.hpp"

namespace ferry::collective {

// Executes the plan; returns this rank's error as an errno. An error of the storage does not end
// the exchange, so that no rank waits in vain. Running out of memory ends the process, and with it
// the job.
//
// Memory of a writer: two windows (Domains::window_bytes()), and the same again for data in flight;
// of any rank: its data of two rounds. More only if the extents of several ranks overlap.
int write_exchanged(Context& context, const Request& request, Plan& plan) noexcept;
int read_exchanged(Context& context, const Request& request, Plan& plan) noexcept;

}  // namespace ferry::collective
