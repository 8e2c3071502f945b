// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "os/environment.h"
#include "plan/plan.h"

namespace lockstep::cli {

// Where a dashboard is to be found.
struct DashboardPlace {
  std::string address;  // on which it listens
  int port = 0;
  std::string token;
  std::string host;         // the name of this machine
  std::string user;         // empty: not known
  std::string submit_host;  // from which a Slurm job was submitted; empty: no job
};

// What to type, on this machine and on one's own.
std::string describe(const DashboardPlace& place);

// Starts `lockstep dashboard` for a run that is about to begin, if this process leads it: a process
// of its own, so that whatever becomes of it, training goes on. It ends with this process at the
// latest. Throws an Error (64) where nobody leads.
void start_dashboard(const plan::LaunchPlan& plan, const os::Environment& environment);

}  // namespace lockstep::cli
