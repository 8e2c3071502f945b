// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/slurm/check_demand.h"
#include "launcher/slurm/facts.h"
#include "lockstep/error.h"

namespace lockstep::slurm {

// A partition with its nodes, and the demand to check against it.
struct Match {
  const Demand& demand;
  const ClusterFacts& facts;
  const Partition& partition;
  std::vector<const ClusterNode*> nodes;
};

using Objection = std::optional<Error>;

// Nodes of a partition.
std::vector<const ClusterNode*> nodes_in(const ClusterFacts& facts, const std::string& partition);

// Why the partition can never satisfy the demand. Empty if it can.
Objection find_objection(const Match& match);

}  // namespace lockstep::slurm
