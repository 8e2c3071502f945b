// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/os/environment.h"

namespace lockstep::slurm {

// Environment for sbatch. Inside another job, the variables that Slurm and MPI set for that job
// (SLURM_*, SBATCH_*, SRUN_*, PMI*, OMPI_*, GPUs of its step) are removed, because they would apply
// its core bindings and counts to the new job. SLURM_CONF and MPI settings such as OMPI_MCA_btl are
// kept. Outside of a job, all variables belong to the user and are kept. SBATCH_WAIT is always
// removed, because lockstep follows the job itself.
os::Environment submit_environment(os::Environment environment);

// Environment for queries: as above, with the time format that the parsers expect.
os::Environment query_environment(const os::Environment& environment);

}  // namespace lockstep::slurm
