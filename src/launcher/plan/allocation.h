// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/plan/launch_target.h"

namespace lockstep::plan {

// The part of a Slurm allocation that determines the number of workers. Vectors are indexed like
// the nodes of the LaunchTarget.
struct Allocation {
  std::string source;      // "Slurm job 4711"; empty: there is no job
  std::vector<int> tasks;  // per node; empty: not more than one task was requested
  std::string tasks_said;  // "--ntasks-per-node=4"
  std::vector<int> cpus;   // per node; empty: unknown
  std::optional<int> gpus;
};

Allocation read_allocation(const HostEnvironment& here, const LaunchTarget& target);

}  // namespace lockstep::plan
