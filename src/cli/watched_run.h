// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "cli/runs.h"
#include "monitor/event_store.h"

namespace lockstep::cli {

// The run that a word of the command line means, as `lockstep status` takes it: a run directory, a
// name below ./runs, or a Slurm job with a run in it; the newest run for an empty word. Throws an
// Error (64) when there is none.
Run watched_run(const std::string& word);

// Whether nothing more will come: its launcher has ended, or is lost. Of a run that lockstep has
// not started, whether rank 0 has told its end.
bool has_ended(const contract::RunDirectory& run, const monitor::EventStore& store);

}  // namespace lockstep::cli
