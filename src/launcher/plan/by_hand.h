// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/plan/ground.h"

// Manual rendezvous: a user or a script starts one launcher on each node, as with torchrun.
namespace lockstep::plan {

bool is_by_hand(const Request& request, const Surroundings& here, const Sizes& sizes);

// Throws an Error (64) when the options do not give the address of node 0, or contradict an outer
// launcher.
Ground meet_by_hand(const Request& request,
                    const Surroundings& here,
                    const Sizes& sizes,
                    const MeetingRules& rules);

}  // namespace lockstep::plan
