// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cluster/nvml.h"
#include "cluster/process_trees.h"
#include "contract/node_sample.h"

namespace lockstep::cluster {

// A worker to look at.
struct WatchedWorker {
  int rank = 0;
  int pid = 0;
  std::optional<std::string> visible_gpus;  // its CUDA_VISIBLE_DEVICES; absent: all

  bool operator==(const WatchedWorker&) const = default;
};

// Takes one sample of this node after the other. What cannot be read is 0 or absent: a node is
// looked at for as long as it runs, whatever it lacks. One thread.
class NodeSampler {
 public:
  using Clock = std::chrono::steady_clock;
  struct Options {
    int node = 0;                      // its number in the gang
    std::filesystem::path root = "/";  // where proc and sys lie
    std::string nvml = Nvml::kLibrary;
  };

  explicit NodeSampler(Options options);

  // Shares of time are since the call before, and 0 in the first.
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
  std::map<int, double> cpu_before_;  // by process
};

// The numbers of the GPUs that CUDA_VISIBLE_DEVICES names, by number or by UUID.
std::vector<int> name_gpus(const std::optional<std::string>& visible,
                           std::span<const contract::GpuSample> gpus);

}  // namespace lockstep::cluster
