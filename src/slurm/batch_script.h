// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "slurm/job.h"

namespace lockstep::slurm {

// Who has made a script.
struct Maker {
  std::string version;  // "0.3.0"
  std::string file;     // "slurm_config.yaml"; empty: the command line alone
  std::string site;     // empty: none
};

// The job as a script for sbatch. Pure: the same job gives the same text.
std::string render_batch_script(const Job& job, const Maker& maker);

// The line of any script that tells who has made it.
std::string render_maker(const Maker& maker);

// A line for each: #SBATCH --nodes="2"
std::string render_directives(const Pairs& directives);

// Sets the stage for the program: modules, variables, the Python environment. Ends with an empty
// line unless there is nothing to set.
std::string render_environment(const Job& job);

// The lines that start the workers of a job and put how they ended into $status; `exec` where the
// script is replaced.
std::string render_launch(const Job& job);

// Whether `lockstep run` takes the place of the script: nothing is to follow, and Slurm shall warn
// it of the time limit.
bool is_replaced(const Job& job);

// The job as scancel and scontrol take it, in the words of its shell. A task of an array is named
// by both numbers: its own may be that of the whole array.
std::string id_of(const Job& job);

}  // namespace lockstep::slurm
