// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/finding.h"

#include <algorithm>

namespace lockstep::doctor {

std::string_view name_of(Severity severity) {
  switch (severity) {
    case Severity::Ok:
      return "ok";
    case Severity::Warning:
      return "warning";
    case Severity::Broken:
      return "broken";
  }
  return "";
}

std::string_view title_of(Section section) {
  switch (section) {
    case Section::Slurm:
      return "Slurm";
    case Section::Network:
      return "Network";
    case Section::Rdma:
      return "RDMA";
    case Section::Gpus:
      return "GPUs";
    case Section::Software:
      return "Software";
    case Section::Limits:
      return "Limits";
    case Section::Clock:
      return "Clock";
    case Section::HostEnvironment:
      return "Environment";
  }
  return "";
}

// `merged` stays in the order of first occurrence. A finding about a subject that is already listed
// is inserted after the last one of that subject, so different values are adjacent. The number of
// findings per node is small, so the quadratic search is not a problem.
Findings merge(const std::vector<NodeFacts>& nodes, Findings (*check)(const NodeFacts&)) {
  Findings merged;
  for (const NodeFacts& node : nodes) {
    for (Finding& finding : check(node)) {
      const auto same = std::find_if(merged.begin(), merged.end(), [&finding](const Finding& one) {
        Finding without = one;
        without.nodes.clear();
        return without == finding;
      });
      if (same != merged.end()) {
        same->nodes.push_back(node.name);
        continue;
      }
      finding.nodes = {node.name};
      // Insert next to other findings about the same subject, so that differences are visible.
      const auto last =
          std::find_if(merged.rbegin(), merged.rend(), [&finding](const Finding& one) {
            return one.subject == finding.subject;
          });
      merged.insert(last == merged.rend() ? merged.end() : last.base(), std::move(finding));
    }
  }
  return merged;
}

// Checks that need all nodes get the facts; checks of a single node are merged.
Findings check_all(const Facts& facts) {
  Findings all;
  const auto add = [&all](Findings some) {
    all.insert(
        all.end(), std::make_move_iterator(some.begin()), std::make_move_iterator(some.end()));
  };
  add(check_slurm(facts));
  add(check_job(facts.slurm));
  add(check_network(facts));
  add(merge(facts.nodes, check_interfaces));
  add(merge(facts.nodes, check_rdma));
  add(merge(facts.nodes, check_gpus));
  add(check_software(facts));
  add(merge(facts.nodes, check_versions));
  add(merge(facts.nodes, check_limits));
  add(check_clocks(facts.cross_node));
  add(merge(facts.nodes, check_surroundings));
  add(check_space(facts.nodes));
  return all;
}

Severity worst_of(const Findings& findings) {
  Severity worst = Severity::Ok;
  for (const Finding& finding : findings) {
    worst = std::max(worst, finding.severity);
  }
  return worst;
}

}  // namespace lockstep::doctor
