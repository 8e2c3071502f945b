// SPDX-License-Identifier: Apache-2.0
//
// Parsers for `scontrol -o show node`, `show partition` and `show config`. One object per line,
// fields as NAME=VALUE; fields.cpp has the rules. Numbers that are missing become 0 or absent: a
// parser must not fail because a version of Slurm adds or drops a field.
#include "launcher/slurm/facts.h"

#include <algorithm>

#include "common/base/text.h"
#include "launcher/slurm/fields.h"
#include "launcher/slurm/time_limit.h"

namespace lockstep::slurm {
namespace {

constexpr int64_t kSecondsPerMinute = 60;

// Splits at commas outside of parentheses: "gpu:a100:4(S:0,2)" is one item. The text in parentheses
// lists the sockets or cores next to the GPUs and is dropped.
std::vector<std::string> split_gres(std::string_view text) {
  std::vector<std::string> pieces(1);
  int depth = 0;
  for (const char letter : text) {
    depth += letter == '(' ? 1 : 0;
    if (letter == ',' && depth == 0) {
      pieces.emplace_back();
    } else if (depth == 0) {
      pieces.back() += letter;
    }
    depth -= letter == ')' ? 1 : 0;
  }
  return pieces;
}

std::vector<std::string> split_names(const std::string& text) {
  std::vector<std::string> names = split(text, ',');
  std::erase(names, "");
  return names;
}

std::optional<int64_t> find_minutes(const std::string& text) {
  const auto seconds = find_time_limit(text);
  if (!seconds || *seconds == kUnlimited) {
    return std::nullopt;
  }
  return *seconds / kSecondsPerMinute;
}

ClusterNode node_of(const Fields& fields) {
  return {.name = value_of(fields, "NodeName"),
          .cpus = static_cast<int>(count_of(fields, "CPUTot")),
          .memory_mib = count_of(fields, "RealMemory"),
          .gpus = parse_gpus(value_of(fields, "Gres")),
          .features = split_names(value_of(fields, "AvailableFeatures")),
          .partitions = split_names(value_of(fields, "Partitions")),
          .state = value_of(fields, "State")};
}

// "UNLIMITED" and missing values become absent.
Partition partition_of(const Fields& fields) {
  Partition partition{.name = value_of(fields, "PartitionName"),
                      .is_default = value_of(fields, "Default") == "YES",
                      .state = value_of(fields, "State"),
                      .nodes = static_cast<int>(count_of(fields, "TotalNodes")),
                      .min_nodes = static_cast<int>(count_of(fields, "MinNodes")),
                      .max_nodes = std::nullopt,
                      .max_minutes = find_minutes(value_of(fields, "MaxTime")),
                      .default_minutes = find_minutes(value_of(fields, "DefaultTime")),
                      .accounts = {},
                      .qos = {}};
  if (const int64_t maximum = count_of(fields, "MaxNodes", -1); maximum >= 0) {
    partition.max_nodes = static_cast<int>(maximum);
  }
  if (const std::string accounts = value_of(fields, "AllowAccounts"); accounts != "ALL") {
    partition.accounts = split_names(accounts);
  }
  if (const std::string qos = value_of(fields, "AllowQos"); qos != "ALL") {
    partition.qos = split_names(qos);
  }
  return partition;
}

}  // namespace

// gpu[:TYPE]:COUNT, also "gpu:a100" without a count, which means one.
std::vector<GpuCount> parse_gpus(std::string_view gres) {
  std::vector<GpuCount> gpus;
  for (const std::string& piece : split_gres(gres)) {
    std::vector<std::string> parts = split(piece, ':');
    if (parts.empty() || parts[0] != "gpu") {
      continue;
    }
    std::erase(parts, "no_consume");
    const auto count = parts.size() > 1 ? find_integer(parts.back()) : std::nullopt;
    const size_t words = parts.size() - (count ? 1 : 0);
    gpus.push_back(
        {.type = words > 1 ? parts[1] : "", .count = static_cast<int>(count.value_or(1))});
  }
  return gpus;
}

std::vector<ClusterNode> parse_nodes(std::string_view text) {
  std::vector<ClusterNode> nodes;
  for (const std::string& line : split(text, '\n')) {
    if (line.starts_with("NodeName=")) {
      nodes.push_back(node_of(parse_fields(line)));
    }
  }
  return nodes;
}

std::vector<Partition> parse_partitions(std::string_view text) {
  std::vector<Partition> partitions;
  for (const std::string& line : split(text, '\n')) {
    if (line.starts_with("PartitionName=")) {
      partitions.push_back(partition_of(parse_fields(line)));
    }
  }
  return partitions;
}

Settings parse_cluster_settings(std::string_view text) {
  const Fields settings = parse_settings(text);
  const std::vector<std::string> enforced =
      split(value_of(settings, "AccountingStorageEnforce"), ',');
  const auto is_enforced = [&enforced](std::string_view word) {
    return std::find(enforced.begin(), enforced.end(), word) != enforced.end();
  };
  const std::string storage = value_of(settings, "AccountingStorageType");
  return {.cluster = value_of(settings, "ClusterName"),
          .version = value_of(settings, "SLURM_VERSION"),
          // Slurm enables associations implicitly for the other values.
          .enforces_accounts = is_enforced("associations") || is_enforced("limits") ||
                               is_enforced("qos") || is_enforced("safe") || is_enforced("wckeys") ||
                               is_enforced("all"),
          .has_submit_plugin = !value_of(settings, "JobSubmitPlugins").empty(),
          .has_accounting = !storage.empty() && storage != "accounting_storage/none"};
}

// srun prints the list to stdout or stderr, depending on its version.
std::vector<std::string> parse_mpi_types(std::string_view text) {
  constexpr std::string_view kVersions = "specific pmix plugin versions available:";
  std::vector<std::string> types;
  for (std::string line : split(text, '\n')) {
    const bool has_versions = line.starts_with(kVersions);
    if (has_versions) {
      line.erase(0, kVersions.size());
    } else if (line.empty() || (line.front() != '\t' && line.front() != ' ')) {
      continue;  // heading: "MPI plugin types are..."
    }
    std::replace(line.begin(), line.end(), '\t', ' ');
    std::replace(line.begin(), line.end(), ',', ' ');
    for (const std::string& word : split(line, ' ')) {
      if (!word.empty()) {
        types.push_back(word);
      }
    }
  }
  return types;
}

}  // namespace lockstep::slurm
