// The engine of all the driver's files.
#pragma once

#include <ferry/bulk.hpp>

namespace ferry::hdf5 {

// It stays when the last file is closed, because programs open one file after another, and a
// connection takes time. A child of fork() gets one of its own.
bulk::Engine engine_of_this_process();

// To be called at the end of the program: a server would wait for a client that has just gone. Open
// files keep the engine until they are closed.
void end_engine();

}  // namespace ferry::hdf5
