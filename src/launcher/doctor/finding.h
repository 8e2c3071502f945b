// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "launcher/doctor/facts.h"

namespace lockstep::doctor {

enum class Severity { Ok, Warning, Broken };
std::string_view name_of(Severity severity);

enum class Section { Slurm, Network, Rdma, Gpus, Software, Limits, Clock, HostEnvironment };
std::string_view title_of(Section section);

// Result of one check.
struct Finding {
  Section section = Section::Slurm;
  Severity severity = Severity::Ok;
  std::string subject;                  // "controller", "/dev/shm"
  std::string text;                     // result
  std::string source;                   // source: "scontrol ping"
  std::vector<std::string> advice;      // commands to type
  std::vector<std::string> nodes = {};  // nodes with this finding; empty: not specific to nodes
  std::vector<std::string> table = {};  // lines to print below, unchanged

  bool operator==(const Finding&) const = default;
};

using Findings = std::vector<Finding>;

// Runs a check on every node and merges equal findings into one with several nodes.
Findings merge(const std::vector<NodeFacts>& nodes, Findings (*check)(const NodeFacts&));

// All checks are pure functions.
Findings check_slurm(const Facts& facts);
Findings check_job(const SlurmFacts& slurm);
Findings check_network(const Facts& facts);
Findings check_interfaces(const NodeFacts& node);
Findings check_rdma(const NodeFacts& node);
Findings check_gpus(const NodeFacts& node);
Findings check_software(const Facts& facts);
Findings check_versions(const NodeFacts& node);
Findings check_limits(const NodeFacts& node);
Findings check_clocks(const CrossNodeFacts& cross_node);
Findings check_surroundings(const NodeFacts& node);
Findings check_space(const std::vector<NodeFacts>& nodes);

// All findings, in the order of the sections.
Findings check_all(const Facts& facts);

// The worst verdict.
Severity worst_of(const Findings& findings);

}  // namespace lockstep::doctor
