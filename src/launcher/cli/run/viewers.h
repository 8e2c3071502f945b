// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "common/os/environment.h"
#include "common/os/process.h"
#include "launcher/plan/plan.h"

// Viewers that `lockstep run` starts next to a run, on the node of the leader. They are separate
// processes, so that their failure does not affect training, and they end with this process at the
// latest.
namespace lockstep::cli {

// Starts `lockstep dashboard`. Throws an Error: 64 if another launcher started the workers, 69 if
// the dashboard was not built.
void start_dashboard(const plan::LaunchPlan& plan, const os::Environment& environment);

// Starts `lockstep export --format tensorboard --follow` with output to `directory` or, if that is
// empty, to the run directory. Returns nothing on nodes without the leader. Throws like
// start_dashboard.
std::optional<os::Child> start_tensorboard(const plan::LaunchPlan& plan,
                                           const os::Environment& environment,
                                           const std::string& directory);

// Stops the writer; waits up to 5 seconds until it has written the remaining values.
void finish_tensorboard(const os::Child& writer);

}  // namespace lockstep::cli
