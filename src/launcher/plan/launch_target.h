// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/cluster/hosts.h"
#include "launcher/plan/parse_options.h"
#include "launcher/plan/plan.h"
#include "launcher/plan/sizes.h"

// Where a run takes place: the launch mode and the nodes.
namespace lockstep::plan {

struct LaunchTarget {
  Sourced<LaunchMode> mode;
  std::vector<cluster::Host> hosts;  // one per node; a name may be empty
  std::string named_by;              // source of the names: "Slurm job 4711", "-H"
  int min_nodes = 1;
  Rendezvous rendezvous;
  bool is_manual = false;
};

// Precedence: explicit flags, the variables of an outer launcher, a Slurm step, a Slurm job, this
// machine. Throws an Error (64) that names both sources when the options contradict the
// environment.
LaunchTarget choose_launch_target(const Request& request,
                                  const HostEnvironment& here,
                                  const Sizes& sizes,
                                  const RendezvousOptions& rules);

// Replaces ssh by a local launch if this machine is the only host.
void settle(LaunchTarget& target, const HostEnvironment& here);

// Whether `name` refers to this machine: its own name, long or short, or a loopback address.
bool is_this_machine(const std::string& name, const HostEnvironment& here);

// Replaces characters that are unsafe in file names.
std::string to_file_name(std::string_view text);

}  // namespace lockstep::plan
