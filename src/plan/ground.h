// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cluster/hosts.h"
#include "plan/plan.h"
#include "plan/read.h"
#include "plan/sizes.h"

// Where a run takes place: by which way its agents come up, and on which nodes.
namespace lockstep::plan {

struct Ground {
  Sourced<Way> way;
  std::vector<cluster::Host> hosts;  // one per node; a name may be empty
  std::string told_by;               // who named them: "Slurm job 4711", "-H"
  int min_nodes = 1;
  Meeting meeting;
  bool is_by_hand = false;
};

// The order is that of the design: explicit flags, an outer launcher's word, a Slurm step, a Slurm
// job, this machine. Throws an Error (64) that names both sources where what was asked and what is
// there contradict each other.
Ground find_ground(const Request& request,
                   const Surroundings& here,
                   const Sizes& sizes,
                   const MeetingRules& rules);

// Where ssh would lead to this machine only, none is needed.
void settle(Ground& ground, const Surroundings& here);

// Whether `name` is this machine: its own name, long or short, or a loopback's.
bool is_this_machine(const std::string& name, const Surroundings& here);

// A word that is safe in a path on every file system.
std::string to_file_name(std::string_view text);

}  // namespace lockstep::plan
