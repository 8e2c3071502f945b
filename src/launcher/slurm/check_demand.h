// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/os/environment.h"
#include "launcher/slurm/facts.h"

namespace lockstep::slurm {

// A requested value and its source ("slurm_config.yaml:7:16").
template <typename Value>
struct Requested {
  Value value{};
  std::string source = {};
};

// Resources that a job requests; Slurm chooses the absent ones.
struct Demand {
  std::optional<Requested<std::string>> partition = std::nullopt;  // or a list: "gpu,long"
  std::optional<Requested<std::string>> account = std::nullopt;
  std::optional<Requested<std::string>> qos = std::nullopt;
  std::optional<Requested<std::string>> constraint = std::nullopt;  // "a100&nvlink"
  std::optional<Requested<std::string>> gpu_type = std::nullopt;
  std::optional<Requested<int>> nodes = std::nullopt;
  std::optional<Requested<int>> gpus_per_node = std::nullopt;
  std::optional<Requested<int>> cpus_per_node = std::nullopt;  // tasks x CPUs per task
  std::optional<Requested<int64_t>> memory_mib =
      std::nullopt;                                          // per node; 0: all memory of the node
  std::optional<Requested<int64_t>> minutes = std::nullopt;  // kUnlimited: none
};

// Applies SBATCH_PARTITION, SBATCH_ACCOUNT, SBATCH_QOS, SBATCH_CONSTRAINT and SBATCH_TIMELIMIT. As
// in sbatch, they override the directives of the script.
Demand with_sbatch_variables(Demand demand, const os::Environment& environment);

// Throws an Error (64) if the cluster can never satisfy the demand: the partition is unknown or
// down, it has too few nodes, its nodes lack GPUs, CPUs, memory, time or features, or a required
// account is missing. Conditions that change over time and rules that only Slurm knows are left to
// `sbatch --test-only`. With JobSubmitPlugins, the site can choose partition and account, so a
// missing one is accepted.
void check(const Demand& demand, const ClusterFacts& facts);

}  // namespace lockstep::slurm
