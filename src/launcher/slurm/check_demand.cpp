// SPDX-License-Identifier: Apache-2.0
//
// Checks a job against the cluster before sbatch. sbatch would reject most of these jobs as well,
// but with one sentence ("Requested node configuration is not available") that names neither the
// value nor the limit. Others it accepts, and they wait forever.
//
//   account  ->  partitions of the job  ->  for each: first objection (objections.cpp)
//
// A job with several partitions is accepted if one of them fits, as in Slurm.
#include "launcher/slurm/check_demand.h"

#include <algorithm>
#include <fmt/format.h>
#include <vector>

#include "common/base/text.h"
#include "launcher/slurm/objections.h"
#include "launcher/slurm/time_limit.h"
#include "lockstep/error.h"

namespace lockstep::slurm {
namespace {

std::vector<std::string> names_of(const std::vector<Partition>& partitions) {
  std::vector<std::string> names;
  names.reserve(partitions.size());
  for (const Partition& partition : partitions) {
    names.push_back(partition.name);
  }
  return names;
}

const Partition* find_partition(const ClusterFacts& facts, const std::string& name) {
  const auto found = std::find_if(facts.partitions.begin(),
                                  facts.partitions.end(),
                                  [&name](const Partition& one) { return one.name == name; });
  return found == facts.partitions.end() ? nullptr : &*found;
}

// The hint is the closest name, or a command that lists all.
[[noreturn]] void refuse_partition(const std::string& name,
                                   const std::string& source,
                                   const ClusterFacts& facts) {
  const std::vector<std::string> names = names_of(facts.partitions);
  throw Error(ExitCode::Usage, fmt::format("partition '{}' does not exist", name))
      .fact("partition", name, source)
      .fact("partitions", join(names, ", "), "scontrol show partition")
      .hint(find_closest(name, names).value_or(names.empty() ? "sinfo -s" : names.front()));
}

// Without enforcement Slurm accepts any account. Without accounting records (`accounts` absent) the
// list is unknown and nothing is checked. An empty list accepts every name.
void check_account(const Demand& demand, const ClusterFacts& facts) {
  if (!facts.settings.enforces_accounts || !facts.accounts) {
    return;
  }
  const Accounts& own = *facts.accounts;
  const std::string list = own.names.empty() ? "none" : join(own.names, ", ");
  if (!demand.account) {
    if (own.preferred.empty() && !facts.settings.has_submit_plugin) {
      throw Error(ExitCode::Usage, "no account given: this cluster requires one")
          .fact("your accounts", list, "sacctmgr show user")
          .hint(own.names.empty() ? "ask the support team for an account"
                                  : fmt::format("account: {}", own.names.front()));
    }
    return;
  }
  const std::string& name = demand.account->value;
  if (!own.names.empty() &&
      std::find(own.names.begin(), own.names.end(), name) == own.names.end()) {
    throw Error(ExitCode::Usage, fmt::format("account '{}' is not one of your accounts", name))
        .fact("account", name, demand.account->source)
        .fact("your accounts", list, "sacctmgr show user")
        .hint(find_closest(name, own.names).value_or(own.names.front()));
  }
}

// Partitions that the job requests, or the default partition.
std::vector<const Partition*> partitions_of(const Demand& demand, const ClusterFacts& facts) {
  std::vector<const Partition*> partitions;
  if (demand.partition) {
    for (const std::string& name : split(demand.partition->value, ',')) {
      const Partition* partition = find_partition(facts, name);
      if (partition == nullptr) {
        refuse_partition(name, demand.partition->source, facts);
      }
      partitions.push_back(partition);
    }
    return partitions;
  }
  for (const Partition& partition : facts.partitions) {
    if (partition.is_default && !facts.settings.has_submit_plugin) {
      partitions.push_back(&partition);
    }
  }
  return partitions;
}

void take(std::optional<Requested<std::string>>& value,
          const os::Environment& environment,
          const std::string& name) {
  if (const auto set = os::find_variable(environment, name)) {
    value = Requested<std::string>{.value = *set, .source = name};
  }
}

}  // namespace

// Precedence in sbatch: command line, SBATCH_ variables, #SBATCH lines. The job file becomes
// #SBATCH lines, so a variable that the user has exported wins, and the check must use it.
Demand with_sbatch_variables(Demand demand, const os::Environment& environment) {
  take(demand.partition, environment, "SBATCH_PARTITION");
  take(demand.account, environment, "SBATCH_ACCOUNT");
  take(demand.qos, environment, "SBATCH_QOS");
  take(demand.constraint, environment, "SBATCH_CONSTRAINT");
  if (const auto time = os::find_variable(environment, "SBATCH_TIMELIMIT")) {
    demand.minutes = Requested<int64_t>{.value = parse_minutes(*time, "SBATCH_TIMELIMIT"),
                                        .source = "SBATCH_TIMELIMIT"};
  }
  return demand;
}

void check(const Demand& demand, const ClusterFacts& facts) {
  check_account(demand, facts);
  Objection first;
  for (const Partition* partition : partitions_of(demand, facts)) {
    const auto objection = find_objection({.demand = demand,
                                           .facts = facts,
                                           .partition = *partition,
                                           .nodes = nodes_in(facts, partition->name)});
    if (!objection) {
      return;  // Slurm starts the job in any of the requested partitions
    }
    if (!first) {
      first = objection;
    }
  }
  if (first) {
    throw Error(*first);
  }
}

}  // namespace lockstep::slurm
