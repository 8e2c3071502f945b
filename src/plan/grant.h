// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/ground.h"

namespace lockstep::plan {

// What Slurm was asked for, as far as it decides about workers. Indexed as the ground's nodes.
struct Grant {
  std::string who;         // "Slurm job 4711"; empty: there is no job
  std::vector<int> tasks;  // per node; empty: nobody asked for more than one
  std::string tasks_said;  // "--ntasks-per-node=4"
  std::vector<int> cpus;   // per node; empty: not told
  std::optional<int> gpus;
};

Grant read_grant(const Surroundings& here, const Ground& ground);

}  // namespace lockstep::plan
