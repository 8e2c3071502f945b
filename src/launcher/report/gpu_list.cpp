// SPDX-License-Identifier: Apache-2.0
#include "launcher/report/gpu_list.h"

#include <algorithm>
#include <fmt/format.h>

#include "common/base/text.h"
#include "launcher/report/advice_rules.h"

namespace lockstep::report {

// Visits every host that has been a node of the run. After a requeue to other hosts, the GPUs of
// both allocations are listed.
std::vector<FoundGpu> find_gpus(const RunFacts& facts, const GpuMeasure& measure) {
  std::vector<FoundGpu> found;
  for (const monitor::NodeView& node : facts.run.nodes) {
    for (const monitor::HostTotals& host : node.hosts) {
      for (const monitor::GpuTotals& gpu : host.gpus) {
        if (const auto value = measure(gpu)) {
          found.push_back({.name = gpu_name(facts, host.host, gpu), .gpu = &gpu, .value = *value});
        }
      }
    }
  }
  return found;
}

std::string name_all(const std::vector<FoundGpu>& found, std::string_view word) {
  const auto [low, high] =
      std::minmax_element(found.begin(), found.end(), [](const FoundGpu& a, const FoundGpu& b) {
        return a.value < b.value;
      });
  if (found.size() > kMaxNamedGpus) {
    return fmt::format(
        "{} GPUs {} {} to {}", found.size(), word, percent(low->value), percent(high->value));
  }
  std::vector<std::string> names;
  names.reserve(found.size());
  for (const FoundGpu& one : found) {
    names.push_back(fmt::format("{} {} {}", one.name, word, percent(one.value)));
  }
  return join(names, ", ");
}

}  // namespace lockstep::report
