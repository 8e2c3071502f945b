// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "doctor/facts.h"

namespace lockstep::doctor {

enum class Verdict { Ok, Warning, Broken };
std::string_view name_of(Verdict verdict);

enum class Section { Slurm, Network, Rdma, Gpus, Software, Limits, Clock, Surroundings };
std::string_view title_of(Section section);

// One thing that was looked at.
struct Finding {
  Section section = Section::Slurm;
  Verdict verdict = Verdict::Ok;
  std::string subject;              // "controller", "/dev/shm"
  std::string text;                 // what was found
  std::string source;               // from where: "scontrol ping"
  std::vector<std::string> advice;  // something to type
  std::vector<std::string> nodes =
      {};  // that it is true of; empty: of all, or of none in particular
  std::vector<std::string> table = {};  // lines below it, as they are

  bool operator==(const Finding&) const = default;
};

using Findings = std::vector<Finding>;

// What is the same on several nodes is said once, with their names.
Findings merge(const std::vector<NodeFacts>& nodes, Findings (*check)(const NodeFacts&));

// Each check is pure.
Findings check_slurm(const Facts& facts);
Findings check_job(const SlurmFacts& slurm);
Findings check_network(const Facts& facts);
Findings check_interfaces(const NodeFacts& node);
Findings check_rdma(const NodeFacts& node);
Findings check_gpus(const NodeFacts& node);
Findings check_software(const Facts& facts);
Findings check_versions(const NodeFacts& node);
Findings check_limits(const NodeFacts& node);
Findings check_clocks(const GangFacts& gang);
Findings check_surroundings(const NodeFacts& node);
Findings check_space(const std::vector<NodeFacts>& nodes);

// All of them, in the order of the sections.
Findings check_all(const Facts& facts);

// The worst of them.
Verdict worst_of(const Findings& findings);

}  // namespace lockstep::doctor
