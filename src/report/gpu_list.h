// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report/run_facts.h"

// GPUs by what they have in common, for sentences about them.
namespace lockstep::report {

struct FoundGpu {
  std::string name;                         // "GPU 2 of node-a"
  const monitor::GpuTotals* gpu = nullptr;  // lives as long as the facts
  double value = 0;                         // what was measured
};

using GpuMeasure = std::function<std::optional<double>(const monitor::GpuTotals& gpu)>;

// The GPUs of which `measure` tells something.
std::vector<FoundGpu> find_gpus(const RunFacts& facts, const GpuMeasure& measure);

// "GPU 2 idle 80 %, GPU 3 idle 45 %", of many "6 GPUs idle 45 % to 80 %", for the word idle.
std::string name_all(const std::vector<FoundGpu>& found, std::string_view word);

inline constexpr size_t kMostNamedGpus = 4;

}  // namespace lockstep::report
