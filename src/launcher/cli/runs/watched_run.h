// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "launcher/cli/runs/runs.h"
#include "launcher/monitor/event_store.h"

namespace lockstep::cli {

// Finds the run for a command-line argument RUN or JOBID: a run directory, a name below ./runs, or
// a Slurm job with a run; an empty word means the newest run. Throws an Error (64) if there is
// none.
Run watched_run(const std::string& word);

// Whether no more events will arrive: the launcher has ended or is lost. For a run that lockstep
// did not start: whether rank 0 has written its end event.
bool has_ended(const contract::RunDirectory& run, const monitor::EventStore& store);

}  // namespace lockstep::cli
