// Transfers of a single rank.
#pragma once

#include "collective/context.hpp"

namespace ferry::collective {

// Reads or writes exactly the bytes of the request, with one storage request per extent of the
// file, for any memory layout. Converted data goes through four buffers of 256 KiB, or is read in
// place. Returns 0 or an errno; ENODATA at the end of the file. `has_cpus`: this rank may use two.
int transfer_alone(StorageFile& file, Phases& phases, const Request& request, storage::Kind kind,
                   bool has_cpus);

}  // namespace ferry::collective
