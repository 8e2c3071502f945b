// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/contract/run_directory.h"
#include "launcher/report/run_facts.h"

namespace lockstep::report {

// The outcome of the run and the reason that its launcher recorded, from state.json, failure.json,
// requeue.json and Slurm. Files that are missing or unreadable are ignored.
Ending find_ending(const contract::RunDirectory& run,
                   const monitor::Snapshot& snapshot,
                   const JobFacts& job,
                   double now);

}  // namespace lockstep::report
