// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "lockstep/communicator.h"

namespace lockstep::comm {

// Whether this build has the MPI transport.
bool has_mpi();

// Joins MPI_COMM_WORLD, for programs started by mpirun or by srun with PMI. The destructor of the
// communicator calls MPI_Finalize. Throws an Error if this build has no MPI.
std::unique_ptr<Communicator> join_mpi();

}  // namespace lockstep::comm
