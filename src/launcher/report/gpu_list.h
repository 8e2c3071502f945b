// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/report/run_facts.h"

// Selects GPUs by a property and names them in a sentence.
namespace lockstep::report {

struct FoundGpu {
  std::string name;                         // "GPU 2 of node-a"
  const monitor::GpuTotals* gpu = nullptr;  // lives as long as the facts
  double value = 0;                         // the result of the measure
};

using GpuMeasure = std::function<std::optional<double>(const monitor::GpuTotals& gpu)>;

// The GPUs for which `measure` returns a value.
std::vector<FoundGpu> find_gpus(const RunFacts& facts, const GpuMeasure& measure);

// "GPU 2 idle 80 %, GPU 3 idle 45 %" for the word "idle"; for many GPUs "6 GPUs idle 45 % to 80 %".
std::string name_all(const std::vector<FoundGpu>& found, std::string_view word);

inline constexpr size_t kMaxNamedGpus = 4;

}  // namespace lockstep::report
