// SPDX-License-Identifier: Apache-2.0
#include "common/contract/fork_offer.h"

#include <nlohmann/json.hpp>

#include "lockstep/error.h"

namespace lockstep::contract {

std::string to_json(const ForkOffer& offer) {
  nlohmann::json workers = nlohmann::json::array();
  for (const ForkedWorker& worker : offer.workers) {
    workers.push_back({{"rank", worker.rank},
                       {"stdout", worker.stdout_fd},
                       {"stderr", worker.stderr_fd},
                       {"variables", worker.variables}});
  }
  return nlohmann::json{{"agent_pid", offer.agent_pid}, {"workers", workers}}.dump();
}

// Both sides are built from the same source; an unreadable offer is a bug, not a user error.
ForkOffer parse_fork_offer(std::string_view json) {
  try {
    const auto value = nlohmann::json::parse(json);
    ForkOffer offer{.agent_pid = value.at("agent_pid").get<int>(), .workers = {}};
    for (const auto& worker : value.at("workers")) {
      offer.workers.push_back({.rank = worker.at("rank").get<int>(),
                               .stdout_fd = worker.at("stdout").get<int>(),
                               .stderr_fd = worker.at("stderr").get<int>(),
                               .variables = worker.at("variables").get<os::Environment>()});
    }
    return offer;
  } catch (const nlohmann::json::exception& fault) {
    throw Error(ExitCode::Bug, "cannot read the agent's fork offer").fact("reason", fault.what());
  }
}

}  // namespace lockstep::contract
