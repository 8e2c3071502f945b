// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "launcher/plan/plan.h"

// The requested size of a run, before looking at the environment.
namespace lockstep::plan {

inline constexpr int kMaxNodes = 65536;
inline constexpr int kMaxWorkersPerNode = 4096;

// The option that set a size, for messages: "--nnodes 4", "command line".
struct Provenance {
  std::string text;
  std::string source;
};

struct NodeRange {
  int minimum = 1;
  int maximum = 1;
  Source source;
  Provenance provenance;
};

struct WorkersPerNode {
  WorkerRule rule = WorkerRule::Number;
  int number = 0;  // if the rule is WorkerRule::Number
  Source source;
  std::string flag;  // as the user spelled it
  Provenance provenance;
};

struct TotalWorkers {
  int number = 1;
  Source source;
  Provenance provenance;
};

struct Sizes {
  std::optional<NodeRange> nodes;  // from --nnodes, or computed from the other two
  std::optional<WorkersPerNode> per_node;
  std::optional<TotalWorkers> total;
};

// Throws an Error (64) when a size is invalid or the three contradict each other.
Sizes read_sizes(const Request& request);

}  // namespace lockstep::plan
