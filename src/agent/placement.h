// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "agent/messages.h"
#include "os/environment.h"
#include "plan/order.h"
#include "plan/plan.h"

// What a plan asks of this machine, checked before the first worker starts.
namespace lockstep::agent {

// The file that each worker executes. Throws an Error (64) that says what is wrong with the program
// and what was perhaps meant.
std::string require_program(const std::vector<std::string>& command,
                            const os::Environment& environment);

// Throws an Error (69) when somebody listens already where rank 0 will. An empty host means every
// address of this machine.
void require_port(const std::string& host, int port);

// How many workers this node has by the plan that was typed on it; 0: as the leader's says.
int own_workers(const plan::LaunchPlan& plan, const Join& join);

// Leaves of the node's addresses those that `wanted` (an address, a name, an interface) stands for;
// all where it is empty. Throws an Error (64) when this machine has none of them.
void keep_addresses(Join& join, const std::string& wanted);

// What one worker gets of this machine.
struct WorkerDevices {
  std::vector<int> cpus;  // empty: all that are granted
  std::string gpus;       // for CUDA_VISIBLE_DEVICES; empty: left as it is

  bool operator==(const WorkerDevices&) const = default;
};

// One entry per worker of the order.
std::vector<WorkerDevices> place_workers(const plan::NodeOrder& order,
                                         const os::Environment& environment);

// The program and its arguments, with the local rank among them where the order says so.
std::vector<std::string> worker_arguments(const plan::NodeOrder& order,
                                          const contract::WorkerPlace& place);

}  // namespace lockstep::agent
