// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "os/environment.h"
#include "slurm/facts.h"

namespace lockstep::slurm {

// A value that a job asks for, and where it was learnt ("slurm_config.yaml:7:16").
template <typename Value>
struct Asked {
  Value value{};
  std::string source = {};
};

// What a job asks for; what is absent is left to Slurm.
struct Demand {
  std::optional<Asked<std::string>> partition = std::nullopt;  // or several: "gpu,long"
  std::optional<Asked<std::string>> account = std::nullopt;
  std::optional<Asked<std::string>> qos = std::nullopt;
  std::optional<Asked<std::string>> constraint = std::nullopt;  // "a100&nvlink"
  std::optional<Asked<std::string>> gpu_type = std::nullopt;
  std::optional<Asked<int>> nodes = std::nullopt;
  std::optional<Asked<int>> gpus_per_node = std::nullopt;
  std::optional<Asked<int>> cpus_per_node = std::nullopt;   // tasks x CPUs of each
  std::optional<Asked<int64_t>> memory_mib = std::nullopt;  // of a node; 0: all that it has
  std::optional<Asked<int64_t>> minutes = std::nullopt;     // kUnlimited: none
};

// What SBATCH_PARTITION, SBATCH_ACCOUNT, SBATCH_QOS, SBATCH_CONSTRAINT and SBATCH_TIMELIMIT change:
// sbatch lets them win over the directives of a script, so they do here.
Demand with_sbatch_variables(Demand demand, const os::Environment& environment);

// Throws an Error (64) when the cluster can never give this: an unknown partition or one that is
// down, more nodes than it has, GPUs, CPUs, memory, time or features that its nodes do not have, no
// account where one is needed. What depends on the moment, and on rules that only Slurm knows, is
// for `sbatch --test-only`. Where a site's own rules may choose the partition or account
// (JobSubmitPlugins), a missing one is left to them.
void check(const Demand& demand, const ClusterFacts& facts);

}  // namespace lockstep::slurm
