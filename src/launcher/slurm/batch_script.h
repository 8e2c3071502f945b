// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "launcher/slurm/job.h"

namespace lockstep::slurm {

// Provenance of a script, for its header.
struct Maker {
  std::string version;  // "0.3.0"
  std::string file;     // "slurm_config.yaml"; empty: command line only
  std::string site;     // empty: none
};

// Renders the batch script of a job. Pure function: the same job gives the same text.
std::string render_batch_script(const Job& job, const Maker& maker);

// Renders the comment line with version, job file and site profile.
std::string render_maker(const Maker& maker);

// Renders one line per directive: #SBATCH --nodes="2"
std::string render_directives(const Pairs& directives);

// Renders the setup before the program starts: modules, variables, Python environment, container.
// Every section begins with an empty line; the text is empty if there is nothing to set up.
std::string render_environment(const Job& job);

// Renders the lines that start the workers and store their exit code in $status, or an `exec` if
// is_replaced().
std::string render_launch(const Job& job);

// Whether `lockstep run` replaces the shell of the script (`exec`): no command follows, and Slurm
// sends a signal before the time limit, which must reach `lockstep run` directly.
bool is_replaced(const Job& job);

// Shell expression of the job id for scancel and scontrol. An array task is named ARRAY_TASK: the
// SLURM_JOB_ID of one of its tasks equals the id of the entire array.
std::string id_of(const Job& job);

}  // namespace lockstep::slurm
