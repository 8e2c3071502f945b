// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "plan/plan.h"

namespace lockstep::plan {

// What --requeue and the options beside it mean here; nothing where it is not asked. Throws an
// Error (64) where there is no batch job of which this process is the one that Slurm signals.
std::optional<RequeueRules> read_requeue(const Request& request, const Surroundings& here, Way way);

}  // namespace lockstep::plan
