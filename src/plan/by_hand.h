// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "plan/ground.h"

// Nodes that people, or scripts, start one by one, as torchrun does it.
namespace lockstep::plan {

bool is_by_hand(const Request& request, const Surroundings& here, const Sizes& sizes);

// Throws an Error (64) when node 0 cannot be found by what is said, or an outer launcher says
// something else.
Ground meet_by_hand(const Request& request,
                    const Surroundings& here,
                    const Sizes& sizes,
                    const MeetingRules& rules);

}  // namespace lockstep::plan
