// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace lockstep::agent {

// Brings up a gang of `nodes` simulated agents with `workers` simulated ranks each, loses one
// agent, and brings it down again; prints what took how long and what of it is simulated. Returns
// 0, or 1 when the gang did not come up.
//
// Real: the leader, its decisions, messages, encryption and sockets. Simulated: agents and workers,
// which are records in a second process; that process holds 100 agents behind each connection.
int simulate(int nodes, int workers);

}  // namespace lockstep::agent
