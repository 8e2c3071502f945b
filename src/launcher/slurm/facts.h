// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// Resources of a cluster, parsed from the output of scontrol.
namespace lockstep::slurm {

struct GpuCount {
  std::string type;  // empty: unknown
  int count = 0;

  bool operator==(const GpuCount&) const = default;
};

// Parses "gpu:a100:4(S:0-1),gpu:h100:2,shard:8"; other resources are skipped.
std::vector<GpuCount> parse_gpus(std::string_view gres);

struct ClusterNode {
  std::string name;
  int cpus = 0;
  int64_t memory_mib = 0;
  std::vector<GpuCount> gpus;
  std::vector<std::string> features;
  std::vector<std::string> partitions;
  std::string state;  // "IDLE", "DOWN*+DRAIN"
};

struct Partition {
  std::string name;
  bool is_default = false;
  std::string state;  // "UP", "DOWN", "DRAIN", "INACTIVE"
  int nodes = 0;
  int min_nodes = 0;
  std::optional<int> max_nodes;        // per job; absent: no limit
  std::optional<int64_t> max_minutes;  // absent: no limit
  std::optional<int64_t> default_minutes;
  std::vector<std::string> accounts;  // allowed accounts; empty: all
  std::vector<std::string> qos;       // allowed QOS; empty: all
};

// Parse the output of `scontrol -o show node` and `scontrol -o show partition`.
std::vector<ClusterNode> parse_nodes(std::string_view text);
std::vector<Partition> parse_partitions(std::string_view text);

// The relevant part of `scontrol show config`.
struct Settings {
  std::string cluster;
  std::string version;
  bool enforces_accounts = false;  // AccountingStorageEnforce has associations
  bool has_submit_plugin = false;  // a site plugin can choose partition and account
  bool has_accounting = false;     // finished jobs are stored in a database
};
Settings parse_cluster_settings(std::string_view text);

// Accounts of a user, and the default account.
struct Accounts {
  std::vector<std::string> names;
  std::string preferred;  // empty: none
};

struct ClusterFacts {
  Settings settings;
  std::vector<Partition> partitions;
  std::vector<ClusterNode> nodes;
  std::optional<Accounts> accounts;  // absent: unknown
};

// Parses the output of `srun --mpi=list`: "none", "pmi2", "pmix", "pmix_v4".
std::vector<std::string> parse_mpi_types(std::string_view text);

}  // namespace lockstep::slurm
