// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "launcher/plan/launch_target.h"

// Manual rendezvous: a user or a script starts one launcher on each node, as with torchrun.
namespace lockstep::plan {

bool is_manual(const Request& request, const HostEnvironment& here, const Sizes& sizes);

// Throws an Error (64) when the options do not give the address of node 0, or contradict an outer
// launcher.
LaunchTarget manual_target(const Request& request,
                           const HostEnvironment& here,
                           const Sizes& sizes,
                           const RendezvousOptions& rules);

}  // namespace lockstep::plan
