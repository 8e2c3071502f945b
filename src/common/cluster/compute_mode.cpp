// SPDX-License-Identifier: Apache-2.0
#include "common/cluster/compute_mode.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>

#include "common/cluster/nvml_session.h"

namespace lockstep::cluster {
namespace {

// Empty if another process can use the GPU. One process can use a GPU in exclusive mode, for
// example the server of MPS.
std::string find_objection(const NvmlSession& nvml, nvml::Device device, unsigned index) {
  int mode = 0;
  if (nvml.call("nvmlDeviceGetComputeMode", device, &mode) != nvml::kSuccess) {
    return "";
  }
  if (mode == nvml::kProhibited) {
    return fmt::format("GPU {} is in prohibited mode", index);
  }
  std::array<nvml::ProcessInfo, 8> processes{};
  auto count = static_cast<unsigned>(processes.size());
  if (mode != nvml::kExclusive ||
      nvml.call("nvmlDeviceGetComputeRunningProcesses_v3", device, &count, processes.data()) !=
          nvml::kSuccess ||
      count == 0) {
    return "";
  }
  return fmt::format(
      "GPU {} is in exclusive mode, and process {} uses it", index, processes.front().pid);
}

}  // namespace

std::vector<std::string> list_closed_gpus(const std::string& library,
                                          const std::vector<int>& gpus) {
  std::vector<std::string> closed;
  const auto nvml = NvmlSession::open(library);
  unsigned count = 0;
  if (!nvml || nvml->call("nvmlDeviceGetCount_v2", &count) != nvml::kSuccess) {
    return closed;
  }
  for (unsigned index = 0; index < count; ++index) {
    const bool is_meant =
        gpus.empty() || std::find(gpus.begin(), gpus.end(), static_cast<int>(index)) != gpus.end();
    nvml::Device device = nullptr;
    if (is_meant && nvml->call("nvmlDeviceGetHandleByIndex_v2", index, &device) == nvml::kSuccess) {
      if (std::string objection = find_objection(*nvml, device, index); !objection.empty()) {
        closed.push_back(std::move(objection));
      }
    }
  }
  return closed;
}

}  // namespace lockstep::cluster
