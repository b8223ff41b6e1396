// MPI's tool interface (MPI_T) with Ferry's variables behind those of the MPI library.
#pragma once

namespace ferry::mpiio {

// As "ferry_mpiio_take" does, for the functions of that interface.
void take_tool_calls(void** functions);

}  // namespace ferry::mpiio
