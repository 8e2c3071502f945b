// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/plan/ground.h"

namespace lockstep::plan {

// The part of a Slurm allocation that determines the number of workers. Vectors are indexed like
// the nodes of the Ground.
struct Grant {
  std::string who;         // "Slurm job 4711"; empty: there is no job
  std::vector<int> tasks;  // per node; empty: not more than one task was requested
  std::string tasks_said;  // "--ntasks-per-node=4"
  std::vector<int> cpus;   // per node; empty: unknown
  std::optional<int> gpus;
};

Grant read_grant(const Surroundings& here, const Ground& ground);

}  // namespace lockstep::plan
