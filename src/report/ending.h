// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "contract/run_directory.h"
#include "report/run_facts.h"

namespace lockstep::report {

// How the run ended, with the reason that its launcher found: from state.json, failure.json,
// requeue.json and what Slurm tells. What is missing or cannot be read is left out.
Ending find_ending(const contract::RunDirectory& run,
                   const monitor::Snapshot& snapshot,
                   const JobFacts& job,
                   double now);

}  // namespace lockstep::report
