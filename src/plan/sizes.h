// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "plan/plan.h"

// How large a gang the user asked for, before anybody looks at what there is.
namespace lockstep::plan {

inline constexpr int kMostNodes = 65536;
inline constexpr int kMostWorkersPerNode = 4096;

// In whose words a size came, for messages: "--nnodes 4", "command line".
struct Quote {
  std::string text;
  std::string who;
};

struct NodeRange {
  int least = 1;
  int most = 1;
  Source source;
  Quote quote;
};

struct WorkersPerNode {
  WorkerRule rule = WorkerRule::Number;
  int number = 0;  // where the rule is one
  Source source;
  std::string flag;  // as the user spells it
  Quote quote;
};

struct WorkersInAll {
  int number = 1;
  Source source;
  Quote quote;
};

struct Sizes {
  std::optional<NodeRange> nodes;  // also what the other two make together
  std::optional<WorkersPerNode> per_node;
  std::optional<WorkersInAll> in_all;
};

// Throws an Error (64) when one does not parse, or the three contradict each other.
Sizes read_sizes(const Request& request);

}  // namespace lockstep::plan
