// SPDX-License-Identifier: Apache-2.0
//
// Each find_... function checks one requirement against one partition and returns an Error with the
// requested value, its source, the limit and the next step; or nothing. find_objection() calls them
// in an order in which the first objection is the most helpful one: a closed partition before its
// limits, an unknown GPU type before the number of GPUs, single resources before their combination.
//
// Only facts that cannot change while the job waits count. Busy, drained or reserved nodes do not:
// the job may wait for them.
#include "launcher/slurm/objections.h"

#include <algorithm>
#include <cctype>
#include <fmt/format.h>
#include <set>

#include "common/base/text.h"
#include "launcher/slurm/time_limit.h"

namespace lockstep::slurm {
namespace {

// Number of GPUs of a type in a node; an empty type matches all.
int gpus_of(const ClusterNode& node, const std::string& type) {
  int sum = 0;
  for (const GpuCount& gpus : node.gpus) {
    sum += type.empty() || gpus.type == type ? gpus.count : 0;
  }
  return sum;
}

// Maximum of a resource over the nodes. 0 for an empty partition, which then cannot satisfy any
// request.
template <typename Measure>
int64_t maximum(const std::vector<const ClusterNode*>& nodes, const Measure& measure) {
  int64_t best = 0;
  for (const ClusterNode* node : nodes) {
    best = std::max<int64_t>(best, measure(*node));
  }
  return best;
}

// Other partitions that have a node with enough of the resource: "gpu (8), big (16)".
template <typename Measure>
std::string others_with(const Match& match, int64_t wanted, const Measure& measure) {
  std::vector<std::string> others;
  for (const Partition& partition : match.facts.partitions) {
    const int64_t best = maximum(nodes_in(match.facts, partition.name), measure);
    if (partition.name != match.partition.name && best >= wanted) {
      others.push_back(fmt::format("{} ({})", partition.name, best));
    }
  }
  return join(others, ", ");
}

// UP, DOWN, DRAIN or INACTIVE. Jobs can be submitted to a DOWN partition, but they do not start,
// and the partition can stay down for weeks.
Objection find_closed(const Match& match) {
  if (match.partition.state.empty() || match.partition.state == "UP") {
    return std::nullopt;
  }
  std::vector<std::string> open;
  for (const Partition& partition : match.facts.partitions) {
    if (partition.state == "UP") {
      open.push_back(partition.name);
    }
  }
  return Error(ExitCode::Usage,
               fmt::format("partition '{}' is not available", match.partition.name))
      .fact("partition",
            match.partition.name,
            match.demand.partition ? match.demand.partition->source : "default of the cluster")
      .fact("state", match.partition.state, "scontrol show partition")
      .hint(open.empty() ? "retry later" : fmt::format("partition: one of {}", join(open, ", ")));
}

Objection find_too_many_nodes(const Match& match) {
  if (!match.demand.nodes) {
    return std::nullopt;
  }
  const auto& [requested, source] = *match.demand.nodes;
  const Partition& partition = match.partition;
  const int max_nodes = std::min(partition.nodes, partition.max_nodes.value_or(partition.nodes));
  if (requested > max_nodes) {
    Error error =
        Error(ExitCode::Usage,
              fmt::format("too many nodes for partition '{}': {}", partition.name, requested))
            .fact("nodes", std::to_string(requested), source)
            .fact("partition size", plural(partition.nodes, "node"), "scontrol show partition");
    if (max_nodes < partition.nodes) {
      error.fact("maximum per job", plural(max_nodes, "node"), "scontrol show partition");
    }
    error.hint(fmt::format("nodes: {}", max_nodes));
    return error;
  }
  if (requested < partition.min_nodes) {
    return Error(ExitCode::Usage,
                 fmt::format("too few nodes for partition '{}': {}", partition.name, requested))
        .fact("nodes", std::to_string(requested), source)
        .fact("minimum per job", plural(partition.min_nodes, "node"), "scontrol show partition")
        .hint(fmt::format("nodes: {}", partition.min_nodes));
  }
  return std::nullopt;
}

std::string gpu_type_of(const Match& match) {
  return match.demand.gpu_type ? match.demand.gpu_type->value : "";
}

// GPU types of the nodes, sorted.
std::vector<std::string> gpu_types(const std::vector<const ClusterNode*>& nodes) {
  std::set<std::string> types;
  for (const ClusterNode* node : nodes) {
    for (const GpuCount& gpus : node->gpus) {
      types.insert(gpus.type);
    }
  }
  types.erase("");
  return {types.begin(), types.end()};
}

Objection find_unknown_gpu(const Match& match) {
  const std::string type = gpu_type_of(match);
  const std::vector<std::string> types = gpu_types(match.nodes);
  if (type.empty() || std::find(types.begin(), types.end(), type) != types.end()) {
    return std::nullopt;
  }
  const std::string others =
      others_with(match, 1, [&type](const ClusterNode& node) { return gpus_of(node, type); });
  Error error =
      Error(ExitCode::Usage,
            fmt::format("partition '{}' has no GPUs of type '{}'", match.partition.name, type))
          .fact("requested", type, match.demand.gpu_type->source)
          .fact("GPU types", types.empty() ? "none" : join(types, ", "), "scontrol show node");
  if (!others.empty()) {
    error.fact("partitions with this type", others, "scontrol show node");
    error.hint("use one of these partitions");
    return error;
  }
  error.hint(find_closest(type, types)
                 .value_or(types.empty() ? "omit gpu_type, or another partition" : types.front()));
  return error;
}

Objection find_too_many_gpus(const Match& match) {
  if (!match.demand.gpus_per_node) {
    return std::nullopt;
  }
  const auto& [requested, source] = *match.demand.gpus_per_node;
  const std::string type = gpu_type_of(match);
  const auto measure = [&type](const ClusterNode& node) {
    return gpus_of(node, type);
  };
  const int64_t best = maximum(match.nodes, measure);
  if (requested <= best) {
    return std::nullopt;
  }
  const std::string others = others_with(match, requested, measure);
  Error error =
      Error(ExitCode::Usage,
            fmt::format(
                "no node of partition '{}' has {}", match.partition.name, plural(requested, "GPU")))
          .fact("GPUs per node", std::to_string(requested), source)
          .fact("maximum per node", best == 0 ? "none" : plural(best, "GPU"), "scontrol show node");
  if (!others.empty()) {
    error.fact("partitions with enough", others, "scontrol show node");
  }
  error.hint(others.empty() ? fmt::format("gpus_per_node: {}, with more nodes", best)
                            : fmt::format("gpus_per_node: {}, or another partition", best));
  return error;
}

Objection find_too_many_cpus(const Match& match) {
  if (!match.demand.cpus_per_node) {
    return std::nullopt;
  }
  const auto& [requested, source] = *match.demand.cpus_per_node;
  const int64_t best = maximum(match.nodes, [](const ClusterNode& node) { return node.cpus; });
  if (requested <= best) {
    return std::nullopt;
  }
  return Error(ExitCode::Usage,
               fmt::format("no node of partition '{}' has {}",
                           match.partition.name,
                           plural(requested, "CPU")))
      .fact("CPUs per node", fmt::format("{} (tasks x CPUs per task)", requested), source)
      .fact("maximum per node", plural(best, "CPU"), "scontrol show node")
      .hint("use fewer tasks per node or fewer CPUs per task");
}

Objection find_too_much_memory(const Match& match) {
  if (!match.demand.memory_mib) {
    return std::nullopt;
  }
  constexpr int kMebibyteBits = 20;
  const auto& [requested, source] = *match.demand.memory_mib;
  const int64_t best =
      maximum(match.nodes, [](const ClusterNode& node) { return node.memory_mib; });
  if (requested <= best) {
    return std::nullopt;
  }
  return Error(ExitCode::Usage,
               fmt::format("no node of partition '{}' has enough memory", match.partition.name))
      .fact("memory", format_bytes(static_cast<uint64_t>(requested) << kMebibyteBits), source)
      .fact("maximum per node",
            format_bytes(static_cast<uint64_t>(best) << kMebibyteBits),
            "scontrol show node")
      .hint(fmt::format("memory: {}M, or 0 for all memory of a node", best));
}

Objection find_too_much_time(const Match& match) {
  const auto& limit = match.partition.max_minutes;
  if (!match.demand.minutes || !limit || match.demand.minutes->value <= *limit) {
    return std::nullopt;
  }
  const auto& [requested, source] = *match.demand.minutes;
  return Error(
             ExitCode::Usage,
             fmt::format("time limit exceeds the maximum of partition '{}'", match.partition.name))
      .fact("time", format_minutes(requested), source)
      .fact("maximum", format_minutes(*limit), "scontrol show partition")
      .hint(fmt::format("time: {}", format_minutes(*limit)));
}

// Features in an expression: "[a100|h100]&nvlink*2" contains three. Operators and counts are not
// evaluated: a feature that no node has is a mistake in any expression.
std::vector<std::string> features_in(std::string_view expression) {
  std::vector<std::string> words(1);
  for (const char letter : expression) {
    const bool is_part = std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '_' ||
                         letter == '-' || letter == '.' || letter == ':' || letter == '=';
    if (is_part) {
      words.back() += letter;
    } else if (letter == '*') {
      words.emplace_back("*");  // a count follows
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  std::erase_if(words, [](const std::string& word) { return word.empty() || word[0] == '*'; });
  return words;
}

Objection find_unknown_feature(const Match& match) {
  if (!match.demand.constraint) {
    return std::nullopt;
  }
  std::set<std::string> known;
  for (const ClusterNode* node : match.nodes) {
    known.insert(node->features.begin(), node->features.end());
  }
  const std::vector<std::string> names(known.begin(), known.end());
  for (const std::string& feature : features_in(match.demand.constraint->value)) {
    if (!known.contains(feature)) {
      return Error(ExitCode::Usage,
                   fmt::format("no node of partition '{}' has the feature '{}'",
                               match.partition.name,
                               feature))
          .fact("constraint", match.demand.constraint->value, match.demand.constraint->source)
          .fact("features", names.empty() ? "none" : join(names, ", "), "scontrol show node")
          .hint(find_closest(feature, names).value_or("omit constraint, or use another partition"));
    }
  }
  return std::nullopt;
}

// Features are left out: their expression language belongs to Slurm.
bool suits(const ClusterNode& node, const Demand& demand, const std::string& gpu_type) {
  return gpus_of(node, gpu_type) >= (demand.gpus_per_node ? demand.gpus_per_node->value : 0) &&
         node.cpus >= (demand.cpus_per_node ? demand.cpus_per_node->value : 0) &&
         node.memory_mib >= (demand.memory_mib ? demand.memory_mib->value : 0);
}

// Some node satisfies each requirement alone, but too few nodes satisfy all of them.
Objection find_too_few_that_suit(const Match& match) {
  const std::string type = gpu_type_of(match);
  const auto suitable =
      std::count_if(match.nodes.begin(), match.nodes.end(), [&](const ClusterNode* node) {
        return suits(*node, match.demand, type);
      });
  const int requested = match.demand.nodes ? match.demand.nodes->value : 1;
  if (suitable >= requested) {
    return std::nullopt;
  }
  Error error = Error(ExitCode::Usage,
                      fmt::format("partition '{}' has too few nodes that meet all requirements",
                                  match.partition.name))
                    .fact("nodes",
                          std::to_string(requested),
                          match.demand.nodes ? match.demand.nodes->source : "default");
  if (match.demand.gpus_per_node) {
    const auto& [gpus, source] = *match.demand.gpus_per_node;
    error.fact("GPUs per node", std::to_string(gpus), source);
  }
  if (match.demand.cpus_per_node) {
    const auto& [cpus, source] = *match.demand.cpus_per_node;
    error.fact("CPUs per node", std::to_string(cpus), source);
  }
  error.fact("matching nodes", std::to_string(suitable), "scontrol show node");
  error.hint(suitable == 0 ? std::string("request less per node")
                           : fmt::format("nodes: {}, or request less per node", suitable));
  return error;
}

// The partition does not allow the account or QOS; `what` is "account" or "QOS".
Objection find_foreign(const Match& match,
                       std::string_view what,
                       const std::optional<Requested<std::string>>& requested,
                       const std::vector<std::string>& allowed) {
  if (!requested || allowed.empty() ||
      std::find(allowed.begin(), allowed.end(), requested->value) != allowed.end()) {
    return std::nullopt;
  }
  return Error(ExitCode::Usage,
               fmt::format("partition '{}' does not allow the {} '{}'",
                           match.partition.name,
                           what,
                           requested->value))
      .fact(what, requested->value, requested->source)
      .fact("available", join(allowed, ", "), "scontrol show partition")
      .hint("use one of these, or another partition");
}

Objection find_foreign_account(const Match& match) {
  return find_foreign(match, "account", match.demand.account, match.partition.accounts);
}

Objection find_foreign_qos(const Match& match) {
  return find_foreign(match, "QOS", match.demand.qos, match.partition.qos);
}

}  // namespace

std::vector<const ClusterNode*> nodes_in(const ClusterFacts& facts, const std::string& partition) {
  std::vector<const ClusterNode*> nodes;
  for (const ClusterNode& node : facts.nodes) {
    const auto& in = node.partitions;
    if (std::find(in.begin(), in.end(), partition) != in.end()) {
      nodes.push_back(&node);
    }
  }
  return nodes;
}

Objection find_objection(const Match& match) {
  for (const auto find : {find_closed,
                          find_foreign_account,
                          find_foreign_qos,
                          find_too_many_nodes,
                          find_unknown_gpu,
                          find_too_many_gpus,
                          find_too_many_cpus,
                          find_too_much_memory,
                          find_too_much_time,
                          find_unknown_feature,
                          find_too_few_that_suit}) {
    if (auto objection = find(match)) {
      return objection;
    }
  }
  return std::nullopt;
}

}  // namespace lockstep::slurm
