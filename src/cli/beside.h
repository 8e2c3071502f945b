// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "os/environment.h"
#include "os/process.h"
#include "plan/plan.h"

// What `lockstep run` starts beside a run that is about to begin, if this process leads it:
// processes of their own, so that whatever becomes of them, training goes on. They end with this
// process at the latest.
namespace lockstep::cli {

// `lockstep dashboard`. Throws an Error: 64 where nobody leads, 69 where it was not built.
void start_dashboard(const plan::LaunchPlan& plan, const os::Environment& environment);

// `lockstep export --format tensorboard --follow`, into `directory` or, if that is empty, into the
// run directory. Nothing on nodes that do not lead. Throws an Error as above.
std::optional<os::Child> start_tensorboard(const plan::LaunchPlan& plan,
                                           const os::Environment& environment,
                                           const std::string& directory);

// Lets it write what is still missing, for some seconds at most.
void finish_tensorboard(const os::Child& writer);

}  // namespace lockstep::cli
