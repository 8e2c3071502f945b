// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "common/contract/launch_plan.h"
#include "launcher/plan/request.h"
#include "launcher/plan/source.h"

namespace lockstep::plan {

using contract::Bind;
using contract::LaunchMode;
using contract::LaunchPlan;
using contract::Metric;
using contract::OutputRules;
using contract::PlannedNode;
using contract::Rendezvous;
using contract::RequeueRules;
using contract::StreamRule;
using contract::Variables;
using contract::WorkerRule;

// Throws an Error (64) that quotes the invalid or conflicting option.
LaunchPlan make_plan(const Request& request, const HostEnvironment& here);

// The launch mode in --dry-run and messages: "on this machine", "agents started by one srun".
std::string_view describe(LaunchMode mode);

// The plan as a table with the source of every value.
std::string describe(const LaunchPlan& plan);

}  // namespace lockstep::plan
