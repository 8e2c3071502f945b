// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "common/os/environment.h"
#include "launcher/plan/node_spec.h"
#include "launcher/plan/plan.h"
#include "launcher/supervisor/protocol/messages.h"

// Checks of the plan against this machine before the first worker starts.
namespace lockstep::supervisor {

// The file that each worker executes. Throws an Error (64) if it cannot be executed; the hint names
// a similar file if there is one.
std::string require_program(const std::vector<std::string>& command,
                            const os::Environment& environment);

// Throws an Error (69) if the address for rank 0 is in use. An empty host means every address of
// this machine.
void require_port(const std::string& host, int port);

// The number of workers of this node according to its own plan; 0: the plan of the leader decides.
int own_workers(const plan::LaunchPlan& plan, const Join& join);

// Keeps only the addresses of the node that match `wanted` (an address, a host name or an
// interface); empty: all. Throws an Error (64) if none matches.
void keep_addresses(Join& join, const std::string& wanted);

// CPUs and GPUs of one worker.
struct WorkerDevices {
  std::vector<int> cpus;  // empty: all that are granted
  std::string gpus;       // for CUDA_VISIBLE_DEVICES; empty: unchanged

  bool operator==(const WorkerDevices&) const = default;
};

// One entry per worker of the spec.
std::vector<WorkerDevices> place_workers(const plan::NodeSpec& spec,
                                         const os::Environment& environment);

// The program and its arguments, with --local_rank=N if the spec requires it.
std::vector<std::string> worker_arguments(const plan::NodeSpec& spec,
                                          const contract::WorkerSpec& worker_spec);

}  // namespace lockstep::supervisor
