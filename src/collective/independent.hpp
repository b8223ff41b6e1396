// Transfers of one rank alone.
#pragma once

#include "collective/context.hpp"

namespace ferry::collective {

// Reads or writes exactly the bytes of the request: one storage request for each extent of the
// file, whatever its memory looks like; converted data goes through four buffers of 256 KiB, or is
// read in place. 0 or an errno; ENODATA where the file ends. `has_cpus`: this rank may use two.
int transfer_alone(StorageFile& file, Phases& phases, const Request& request, storage::Kind kind,
                   bool has_cpus);

}  // namespace ferry::collective
