// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace lockstep::supervisor {

// Simulates a run of `nodes` agents with `workers` ranks each: start, loss of one agent, restart,
// end. Prints the time of each phase. Returns the exit code of the run, or 1 if a phase times out.
//
// Real: the leader, its decisions, messages, encryption and sockets. Simulated: agents and workers,
// which are records in a second process, with 100 agents per connection.
int simulate(int nodes, int workers);

}  // namespace lockstep::supervisor
