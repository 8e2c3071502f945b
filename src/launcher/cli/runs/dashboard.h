// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace lockstep::cli {

// The address of a dashboard.
struct DashboardAddress {
  std::string address;  // that it listens on
  int port = 0;
  std::string token;
  std::string host;         // the name of this machine
  std::string user;         // empty: unknown
  std::string submit_host;  // login node of the Slurm job; empty: not in a job
};

// The URL, and the ssh command to reach it from another machine.
std::string describe(const DashboardAddress& dashboard);

}  // namespace lockstep::cli
