// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "lockstep/communicator.h"

namespace lockstep::comm {

// Whether this build has the MPI transport.
bool has_mpi();

// Joins MPI_COMM_WORLD, for programs started by mpirun (or srun with PMI). MPI is left when the
// communicator goes. Throws an Error if this build has no MPI.
std::unique_ptr<Communicator> join_mpi();

}  // namespace lockstep::comm
