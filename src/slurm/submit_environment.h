// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "os/environment.h"

namespace lockstep::slurm {

// The variables with which a job is submitted. Inside another job, what Slurm and MPI have told
// that job (SLURM_*, SBATCH_*, SRUN_*, PMI*, OMPI_*, the GPUs of its step ...) stays behind, as it
// would bind the new one to the old one's cores and counts; SLURM_CONF stays, and so do settings
// such as OMPI_MCA_btl. Outside of any job all of it is the user's own. SBATCH_WAIT never comes
// along: a job is followed by lockstep.
os::Environment submit_environment(os::Environment environment);

// The variables with which Slurm is asked something: the same, and times in the form that is read
// here.
os::Environment query_environment(const os::Environment& environment);

}  // namespace lockstep::slurm
