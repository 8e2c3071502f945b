// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/os/environment.h"
#include "launcher/plan/plan.h"

// Rendezvous of a job: finds a network that connects all nodes by testing it, and describes it in
// the variables that other launchers and libraries read.
namespace lockstep::doctor {

struct RendezvousNode {
  std::string name;
  std::string address;    // on the chosen network
  std::string interface;  // empty on one node
  std::optional<int> roce_gid;

  bool operator==(const RendezvousNode&) const = default;
};

struct JobRendezvous {
  std::string network;                // "10.12.0.0/24"; empty on one node
  std::string reason;                 // why this network
  std::vector<std::string> details;   // why other networks were rejected
  std::vector<RendezvousNode> nodes;  // in the order of node ranks
  int port = 0;                       // free on the first node

  bool operator==(const JobRendezvous&) const = default;
};

// Tests the network between all nodes of the plan; a single node uses the loopback. `interfaces`
// are the allowed ones; empty: all. Throws an Error (69) if a node does not answer or no network
// connects all nodes, and (64) if this process is one of several tasks.
JobRendezvous choose_rendezvous(const plan::LaunchPlan& plan,
                                const os::Environment& environment,
                                const std::vector<std::string>& interfaces);

// In the order in which they are printed.
using OrderedVariables = std::vector<std::pair<std::string, std::string>>;

// Variables for a job script. Values that the user has set are kept.
OrderedVariables variables_of(const JobRendezvous& rendezvous, const os::Environment& environment);

// Warnings about facts that the variables cannot express, one sentence each.
std::vector<std::string> remarks_on(const JobRendezvous& rendezvous);

// Export statements for `eval` in a POSIX shell.
std::string to_shell(const OrderedVariables& variables);
std::string to_json(const JobRendezvous& rendezvous, const OrderedVariables& variables);

}  // namespace lockstep::doctor
