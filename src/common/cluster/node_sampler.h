// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/cluster/nvml.h"
#include "common/cluster/process_trees.h"
#include "common/contract/node_sample.h"

namespace lockstep::cluster {

// A worker to sample.
struct WatchedWorker {
  int rank = 0;
  int pid = 0;
  std::optional<std::string> visible_gpus;  // CUDA_VISIBLE_DEVICES of the worker; absent: all

  bool operator==(const WatchedWorker&) const = default;
};

// Samples this node. Values that cannot be read are 0 or absent: a missing counter must not end the
// sampling of a run. Not thread-safe.
class NodeSampler {
 public:
  using Clock = std::chrono::steady_clock;
  struct Options {
    int node = 0;                      // node rank
    std::filesystem::path root = "/";  // directory that contains proc and sys
    std::string nvml = Nvml::kLibrary;
  };

  explicit NodeSampler(Options options);

  // Rates cover the time since the previous call; the first call returns 0.
  contract::NodeSample sample(std::span<const WatchedWorker> workers);

 private:
  double count_busy_seconds(const std::string& membership) const;
  void add_workers(contract::NodeSample& sample,
                   std::span<const WatchedWorker> workers,
                   double seconds);

  Options options_;
  std::vector<int> processors_;
  int granted_ = 1;
  bool has_quota_ = false;
  Nvml nvml_;
  ProcessTrees trees_;
  std::optional<Clock::time_point> before_;
  double busy_before_ = 0;
  std::map<int, double> cpu_before_;  // by process number
};

// The indices of the GPUs in CUDA_VISIBLE_DEVICES, which lists numbers or UUIDs.
std::vector<int> name_gpus(const std::optional<std::string>& visible,
                           std::span<const contract::GpuSample> gpus);

}  // namespace lockstep::cluster
