// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

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

}  // namespace lockstep::cli
