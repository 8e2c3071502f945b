// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// What a cluster has, as scontrol tells it.
namespace lockstep::slurm {

struct GpuCount {
  std::string type;  // empty: not told
  int count = 0;

  bool operator==(const GpuCount&) const = default;
};

// "gpu:a100:4(S:0-1),gpu:h100:2,shard:8"; what is no GPU is left out.
std::vector<GpuCount> parse_gpus(std::string_view gres);

struct Node {
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
  std::optional<int> max_nodes;        // that a job may have; absent: all
  std::optional<int64_t> max_minutes;  // absent: no limit
  std::optional<int64_t> default_minutes;
  std::vector<std::string> accounts;  // the only ones that may use it; empty: all
  std::vector<std::string> qos;       // likewise
};

// One line each of `scontrol -o show node` and `scontrol -o show partition`.
std::vector<Node> parse_nodes(std::string_view text);
std::vector<Partition> parse_partitions(std::string_view text);

// What `scontrol show config` tells that matters here.
struct Settings {
  std::string cluster;
  std::string version;
  bool enforces_accounts = false;  // AccountingStorageEnforce has associations
  bool has_submit_plugin = false;  // a site's rules may choose partition and account by themselves
  bool has_accounting = false;     // somebody keeps what jobs have done
};
Settings parse_cluster_settings(std::string_view text);

// A user's accounts, and the one that is taken when a job names none.
struct Accounts {
  std::vector<std::string> names;
  std::string preferred;  // empty: none
};

struct ClusterFacts {
  Settings settings;
  std::vector<Partition> partitions;
  std::vector<Node> nodes;
  std::optional<Accounts> accounts;  // absent: nobody could tell
};

// The kinds of MPI that `srun --mpi=list` names: "none", "pmi2", "pmix", "pmix_v4".
std::vector<std::string> parse_mpi_types(std::string_view text);

}  // namespace lockstep::slurm
