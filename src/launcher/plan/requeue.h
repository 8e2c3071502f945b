// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "launcher/plan/plan.h"

namespace lockstep::plan {

// The requeue rules of --requeue and its options; nothing if it is not requested. Throws an Error
// (64) unless this process is the batch script of a job, which is what Slurm signals.
std::optional<RequeueRules> read_requeue(const Request& request,
                                         const HostEnvironment& here,
                                         LaunchMode mode);

}  // namespace lockstep::plan
