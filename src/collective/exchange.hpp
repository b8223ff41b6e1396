// Collective transfers through writers, for the methods aggregate and serial.
#pragma once

#include "collective/plan.hpp"

namespace ferry::collective {

// Carries out the plan; this rank's error as an errno. Storage that fails does not end the
// exchange, so that no rank waits for another in vain. Memory that runs out ends the process, and
// with it the job.
//
// Memory of a writer: two windows (Domains::window_bytes()), and once more as much for data on its
// way; of any rank: what it sends or gets in two rounds. It is more only where the extents of
// several ranks overlap.
int write_exchanged(Context& context, const Request& request, Plan& plan) noexcept;
int read_exchanged(Context& context, const Request& request, Plan& plan) noexcept;

}  // namespace ferry::collective
