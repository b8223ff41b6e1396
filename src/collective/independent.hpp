// Transfers of one rank alone.
#pragma once

#include "collective/context.hpp"

namespace ferry::collective {

// Reads or writes exactly the bytes of the request: one storage request for each extent of the
// file, whatever its memory looks like; converted data
// goes through two buffers of 1 MiB, or is read in place. 0 or an errno; ENODATA where the file
// ends.
int transfer_alone(StorageFile& file, Phases& phases, const Request& request, storage::Kind kind);

}  // namespace ferry::collective
