// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "os/environment.h"
#include "plan/order.h"
#include "plan/plan.h"

// Way::Task: somebody has started one process per worker. The first one of each node meets the
// others and leaves what it was told for its neighbours; then each becomes the program.
namespace lockstep::agent {

// Removes what a former run of the same name may have left; before anybody can have been told.
void clear_orders(const plan::LaunchPlan& plan, const os::Environment& environment);

// Leaves the order where the other processes of this node look for it.
void post_order(const plan::LaunchPlan& plan,
                const plan::NodeOrder& order,
                const os::Environment& environment);

// Throws an Error (69) when it does not come in time.
plan::NodeOrder wait_for_order(const plan::LaunchPlan& plan, const os::Environment& environment);

// Does not return; throws an Error when the program cannot be executed.
[[noreturn]] void become_worker(const plan::LaunchPlan& plan,
                                const plan::NodeOrder& order,
                                const os::Environment& environment);

}  // namespace lockstep::agent
