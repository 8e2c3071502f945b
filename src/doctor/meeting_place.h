// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "os/environment.h"
#include "plan/plan.h"

// Where the processes of a job can meet: the network on which all of its nodes really talk, said in
// the variables that other launchers and libraries read.
namespace lockstep::doctor {

struct MeetingNode {
  std::string name;
  std::string address;    // on the chosen network
  std::string interface;  // empty on one node
  std::optional<int> roce_gid;

  bool operator==(const MeetingNode&) const = default;
};

struct MeetingPlace {
  std::string network;               // "10.12.0.0/24"; empty on one node
  std::string reason;                // why this network
  std::vector<std::string> details;  // what is wrong with the others
  std::vector<MeetingNode> nodes;    // in the order of their ranks
  int port = 0;                      // free on the first of them

  bool operator==(const MeetingPlace&) const = default;
};

// Asks all nodes of the plan, or this machine alone where it has no other. `interfaces`: the only
// ones that may be used; empty: all. Throws an Error (69) when a node does not come or no network
// connects them all, (64) where this process is one of several tasks.
MeetingPlace find_meeting_place(const plan::LaunchPlan& plan,
                                const os::Environment& environment,
                                const std::vector<std::string>& interfaces);

// In the order in which they are printed.
using OrderedVariables = std::vector<std::pair<std::string, std::string>>;

// What a job script needs to know of the place. What the user has set stays as it is.
OrderedVariables variables_of(const MeetingPlace& place, const os::Environment& environment);

// What the variables cannot say, one sentence each.
std::vector<std::string> remarks_on(const MeetingPlace& place);

// For `eval` in a POSIX shell.
std::string to_shell(const OrderedVariables& variables);
std::string to_json(const MeetingPlace& place, const OrderedVariables& variables);

}  // namespace lockstep::doctor
