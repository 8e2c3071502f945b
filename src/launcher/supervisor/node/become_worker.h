// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/os/environment.h"
#include "launcher/plan/node_spec.h"
#include "launcher/plan/plan.h"

// LaunchMode::Task: another launcher has started one process per worker. Local rank 0 of each node
// takes part in the rendezvous and leaves the spec of its node in private files for the other
// processes of the node. Then each process replaces itself by the program.
namespace lockstep::supervisor {

// Removes the files that an earlier run of the same name may have left. Local rank 0 calls it
// before it joins, so before any spec of this run can exist.
void clear_specs(const plan::LaunchPlan& plan, const os::Environment& environment);

// Writes the spec for the other processes of this node.
void post_spec(const plan::LaunchPlan& plan,
               const plan::NodeSpec& spec,
               const os::Environment& environment);

// Waits for the spec. Throws an Error (69) after --start-timeout.
plan::NodeSpec wait_for_spec(const plan::LaunchPlan& plan, const os::Environment& environment);

// Does not return. Throws an Error if the program cannot be executed.
[[noreturn]] void become_worker(const plan::LaunchPlan& plan,
                                const plan::NodeSpec& spec,
                                const os::Environment& environment);

}  // namespace lockstep::supervisor
